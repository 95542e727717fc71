"""What a value is an array of."""

from __future__ import annotations

from typing import NamedTuple


class ValueType(NamedTuple):
    """A dtype and a shape."""

    dtype: str
    shape: tuple[int, ...]

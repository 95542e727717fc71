"""The type of a value: its dtype and shape."""

from __future__ import annotations

from typing import NamedTuple


class ValueType(NamedTuple):
    """A dtype and a shape."""

    dtype: str
    shape: tuple[int, ...]

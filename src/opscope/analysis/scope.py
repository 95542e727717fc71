"""The part of a recording that is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Scope(NamedTuple):
    """Which steps and phases of a rank are checked."""

    rank: int
    wants_step: Callable[[int], bool]
    include: frozenset[str]
    """Phases beside those of training."""

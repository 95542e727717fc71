"""The part of a recording that is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

KeptCount = tuple[int, int, str, int, float, float]
"""Of what elements were counted: step, call, side and slot of a value, and both ends of a range."""
Counts = Mapping[KeptCount, int]
NO_COUNTS: Counts = MappingProxyType({})


class Scope(NamedTuple):
    """The steps and phases of a rank that are checked."""

    rank: int
    wants_step: Callable[[int], bool]
    include: frozenset[str]
    """Phases beside those of training."""
    counts: Counts = NO_COUNTS
    """Elements in ranges, of values that somebody has beside the recording."""

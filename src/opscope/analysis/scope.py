"""The part of a recording that is checked, and what is known beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from opscope.stats.two_tensors import Difference

KeptCount = tuple[int, int, str, int, float, float]
"""Of what elements were counted: step, call, side and slot of a value, and both ends of a range."""
KeptChange = tuple[int, str, tuple[float, float, bool]]
"""Of what was compared: the step that used a parameter, its name, and with which tolerance."""


class Kept(NamedTuple):
    """The findings of a training that still runs in the values that it keeps."""

    counts: Mapping[KeptCount, int] = MappingProxyType({})
    """Elements in ranges."""
    changes: Mapping[KeptChange, Difference] = MappingProxyType({})
    """Return the distance of parameters from what they were in the step before."""


NOTHING_KEPT = Kept()


class CheckedPart(NamedTuple):
    """The steps and phases of a rank that are checked."""

    rank: int
    wants_step: Callable[[int], bool]
    include: frozenset[str]
    """Phases beside those of training."""
    kept: Kept = NOTHING_KEPT
    """Values that somebody has beside the recording."""

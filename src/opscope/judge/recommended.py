"""The watchpoints that are on unless told otherwise: silent on healthy training."""

from __future__ import annotations

from typing import Any

from opscope.judge.parsing import make
from opscope.judge.watchpoint import Watchpoint

_SET = (
    *("OO", "WO", "LN", "LS", "AS", "AD", "PU", "PO", "PG", "GA", "GU", "FC", "ED", "RD"),
    *("LD", "LB", "LA", "LT", "LI", "NC", "WE", "NE", "GD", "TE", "OS"),
)
_THOROUGH = ("LP", "LO", "DX", "DB", "DF", "DC")
"""Conditions that are calibrated, but say something of sound trainings, too."""
_EVERYTHING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("TZ", {"cls": "activation", "steps_ge": 20}),
    ("WL", {"abs_mean_gt": 1e3, "steps_ge": 10}),
    ("WCL", {"abs_mean_update_ratio_gt": 0.5, "steps_ge": 10, "parameter": "*weight*"}),
    ("GV", {"abs_mean_lt": 1e-12, "steps_ge": 20, "parameter": "*weight*"}),
)
"""Conditions on single values, with numbers that healthy trainings do not come to.

A bias may have no gradient by nature, as that of the keys of an attention, which softmax cancels.
"""
_ARRIVING = ("OO", "LN")
QUICK = ("OO", "WO", "LN")
"""Those about finiteness only."""


def recommended(quick: bool = False) -> list[Watchpoint]:
    """The recommended set; with `quick` only what finds NaN and Inf."""
    return [_make(abbr, number) for number, abbr in enumerate(QUICK if quick else _SET, 1)]


def thorough() -> list[Watchpoint]:
    """The recommended set, and what looks at how well training goes."""
    return [_make(abbr, number) for number, abbr in enumerate((*_SET, *_THOROUGH), 1)]


def everything() -> list[Watchpoint]:
    """The thorough set, and what has thresholds, with such as fit any training."""
    found = thorough()
    for abbr, parts in _EVERYTHING:
        found.append(make(abbr, len(found) + 1, **parts))
    return found


def _make(abbr: str, number: int) -> Watchpoint:
    """Of what is not finite only what arrives counts, unless a person asks for all of it."""
    return make(abbr, number, arriving=True) if abbr in _ARRIVING else make(abbr, number)

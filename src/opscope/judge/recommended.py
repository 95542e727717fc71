"""The watchpoints that are on unless told otherwise: silent on healthy training."""

from __future__ import annotations

from opscope.judge.parsing import make
from opscope.judge.watchpoint import Watchpoint

_SET = ("OO", "WO", "LN", "LS", "AS", "AD", "PU", "PO", "PG", "GA", "FC", "ED", "RD")
QUICK = ("OO", "WO", "LN")
"""Those about finiteness only."""


def recommended(quick: bool = False) -> list[Watchpoint]:
    """The recommended set; with `quick` only what finds NaN and Inf."""
    return [make(abbr, number) for number, abbr in enumerate(QUICK if quick else _SET, 1)]

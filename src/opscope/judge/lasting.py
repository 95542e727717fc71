"""Conditions that must hold for some steps in a row before they count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opscope.judge.condition import STEPS, TRAINING
from opscope.judge.hits import Hit
from opscope.judge.watchpoint import Watchpoint


def needed_steps(watchpoint: Watchpoint) -> int:
    """Return in how many steps in a row a value must hit; 1 for most conditions."""
    is_of_values = watchpoint.condition.target != TRAINING
    return int(watchpoint.params.get(STEPS, 1)) if is_of_values else 1


@dataclass(slots=True)
class _Streak:
    """The outcome for a value in the last step it was seen in, and before."""

    step: int
    before: int
    """For how many steps in a row the condition held before that step."""
    holds: bool = False


class Lasting:
    """Counts by value for how many steps in a row, of those it was seen in, a condition held."""

    def __init__(self) -> None:
        self._streaks: dict[int, dict[tuple[int, int], _Streak]] = {}
        """By watchpoint, and then by node and slot."""

    def enough(
        self, watchpoint: Watchpoint, step: int, records: NDArray[np.void], hits: Sequence[Hit]
    ) -> Iterator[Hit]:
        """Return those of some hits that have lasted; `records` are all that was checked.

        A step counts once, however many passes it has, and in however many parts it comes.
        """
        streaks = self._streaks.setdefault(watchpoint.id, {})
        if not hits and not streaks:
            return
        needed = needed_steps(watchpoint)
        now = {(h.node.id, h.slot): h for h in hits if h.node is not None}
        places = zip(records["node"].tolist(), records["slot"].tolist(), strict=True)
        for place in dict.fromkeys(places):
            streak = streaks.get(place)
            if streak is None:
                if place not in now:
                    continue
                streak = streaks[place] = _Streak(step, 0)
            elif streak.step != step:
                before = streak.before + 1 if streak.holds else 0
                if place not in now and not before:
                    del streaks[place]
                    continue
                streak.step, streak.before, streak.holds = step, before, False
            if place in now and not streak.holds:
                streak.holds = True
                if streak.before + 1 >= needed:
                    yield now[place]

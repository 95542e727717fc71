"""The hits a watchpoint would have had in the steps recorded last, and where its threshold lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opscope.analysis.opened import Opened
from opscope.errors import OpscopeError
from opscope.judge.condition import STEPS
from opscope.judge.conditions.expression import measuring
from opscope.judge.expression_thresholds import thresholds
from opscope.judge.hits import Hit
from opscope.judge.watch_set import WatchSet
from opscope.judge.watchpoint import Watchpoint
from opscope.views.hit_list import hit_line
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.watch_answers import Preview, ThresholdHistory

_EXAMPLES = 5
_SAMPLE = 400
_ROOM = 1.5
"""The factor by which a suggested threshold lies beyond all that was seen."""
_NUMBERS = 200_000
"""About so many numbers a history is made of; of large runs fewer steps are looked at."""


def preview(reader: Opened, view: RankView, watchpoint: Watchpoint, last: int) -> Preview:
    """Check a watchpoint on the last recorded steps, whether it is enabled or not."""
    steps = view.recorded_steps[-last:]
    on = replace(watchpoint, enabled=True)
    checked = reader.check(WatchSet([on]), ranks=[view.rank], steps=steps)
    by_step = Counter(hit.step for hit in checked.hits)
    return {
        "steps": len(steps),
        "first": steps[0] if steps else None,
        "last": steps[-1] if steps else None,
        "hits": len(checked.hits),
        "steps_hit": len(by_step),
        "by_step": [[step, count] for step, count in sorted(by_step.items())],
        "examples": [hit_line(hit.to_json()) for hit in checked.hits[:_EXAMPLES]],
        "values": checked.values,
        "unchecked": [each.to_json() for each in checked.unchecked],
    }


def threshold_history(
    reader: Opened, view: RankView, watchpoint: Watchpoint, parameter: str, last: int
) -> ThresholdHistory:
    """Return the numbers a threshold of a watchpoint would have been compared with, step by step.

    Those of an expression are called by their places in it, from 0 on.
    """
    probe, name, above = _probe(watchpoint, parameter)
    steps = view.recorded_steps[-last:]
    nodes = max(1, len(view.nodes))
    steps = steps[-max(2, _NUMBERS // nodes) :]
    checked = reader.check(WatchSet([probe]), ranks=[view.rank], steps=steps)
    found = [(hit.step, hit.actual[name]) for hit in checked.hits if _has(hit, name)]
    return _history(parameter, above, found)


def _probe(watchpoint: Watchpoint, parameter: str) -> tuple[Watchpoint, str, bool]:
    """A watchpoint that every value hits, what it calls the number, and whether above hits."""
    if watchpoint.condition.expression:
        found = thresholds(watchpoint.condition.expression)
        if not parameter.isdecimal() or int(parameter) >= len(found):
            there = ", ".join(map(str, range(len(found)))) or "none"
            raise OpscopeError(f"{watchpoint.text} has no threshold {parameter}; there are {there}")
        asked = found[int(parameter)]
        probe = replace(watchpoint, condition=measuring(asked.measured), enabled=True)
        return probe, asked.measured, asked.above
    names = [known.name for known in watchpoint.condition.thresholds]
    if parameter not in names:
        there = ", ".join(names) or "none"
        raise OpscopeError(f"{watchpoint.text} has no threshold {parameter}; there are {there}")
    above = not parameter.endswith("_lt")
    return _with_every_value(watchpoint, parameter, above), parameter, above


def _with_every_value(watchpoint: Watchpoint, parameter: str, above: bool) -> Watchpoint:
    """The same watchpoint with a threshold that every number passes, and no other one."""
    supports = {known.name for known in watchpoint.condition.parameters if known.only_support}
    params = {name: value for name, value in watchpoint.params.items() if name in supports}
    if STEPS in params:
        params[STEPS] = 1.0
    params[parameter] = -np.inf if above else np.inf
    return replace(watchpoint, params=params, enabled=True)


def _has(hit: Hit, parameter: str) -> bool:
    return bool(np.isfinite(hit.actual.get(parameter, np.nan)))


def _history(parameter: str, above: bool, found: Sequence[tuple[int, float]]) -> ThresholdHistory:
    by_step: dict[int, list[float]] = {}
    for step, number in found:
        by_step.setdefault(step, []).append(number)
    steps = sorted(by_step)
    numbers = np.sort(np.array([number for _, number in found], np.float64))
    places = np.linspace(0, len(numbers) - 1, min(_SAMPLE, len(numbers))).round().astype(int)
    return {
        "parameter": parameter,
        "above": above,
        "steps": steps,
        "low": [min(by_step[step]) for step in steps],
        "high": [max(by_step[step]) for step in steps],
        "total": len(numbers),
        "sample": numbers[places].tolist(),
        "suggested": _suggested(numbers, above) if len(numbers) else None,
    }


def _suggested(numbers: np.ndarray, above: bool) -> float:
    """Beyond all numbers so far, on the side of those that would hit, in two digits."""
    end = float(numbers[-1] if above else numbers[0])
    outward = (end > 0) == above
    found = end * _ROOM if outward else end / _ROOM
    return float(f"{found:.2g}")

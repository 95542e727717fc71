"""A training over its steps: loss, gradient norm, time, and the hits of each watchpoint."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opscope.events import StepRecord
from opscope.read.row_store import Records
from opscope.read.state import RUNNING
from opscope.stats.record import OUTPUT, bad_among, taken
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.answers import Lane, StepLine, Steps, Strip


_MANY = 2_000
"""From so many gradients on, steps are looked at one by one."""
_PATIENCE_S = 0.25
"""The time that the strip waits for gradient norms that are not known yet."""


def strip(view: RankView, points: int = 2000) -> Strip:
    """All steps in at most so many points."""
    records = view.recorded.steps
    norms = gradient_norms(view, _PATIENCE_S)
    parts = _stretches(len(records), points)
    chosen = [[records[i] for i in part] for part in parts]
    losses = [[value for record in part for value in _losses(record)] for part in chosen]
    return {
        "steps": [part[-1].step for part in chosen],
        "loss": [values[-1] if values else None for values in losses],
        "loss_low": [_least(values) for values in losses],
        "loss_high": [_largest(values) for values in losses],
        "gradient_norm": [_largest([norms[r.step] for r in p if r.step in norms]) for p in chosen],
        "seconds": [_largest([r.seconds for r in p if not math.isnan(r.seconds)]) for p in chosen],
        "operators": [max(len(record.calls) for record in part) for part in chosen],
        "passes": [max(record.calls.pass_count for record in part) for part in chosen],
        "lanes": _lanes(view),
        "recorded": view.recorded_steps,
        "pending": sum(step not in view.norms for step in view.recorded_steps[:-1])
        if view.norms
        else 0,
    }


def steps(view: RankView, first: int = 0, count: int = 100) -> Steps:
    """Steps as a table, the latest first."""
    records = view.recorded.steps[::-1]
    shown = records[first : first + count]
    norms = gradient_norms(view)
    hits = Counter(hit.get("step") for hit in view.hits)
    recorded = set(view.recorded_steps)
    return {
        "total": len(records),
        "steps": [_line(record, norms, recorded, hits[record.step]) for record in shown],
    }


def gradient_norms(view: RankView, patience_s: float = math.inf) -> dict[int, float]:
    """Step → the l2 norm of all gradients of parameters, as they were last computed in the step.

    It stands for the gradients before clipping; a step without numbers has none. Those that were
    found once are kept with the view. Of models with very many gradients only as many steps are
    looked at as patience allows, the latest first; the next call goes on from there.
    """
    names: dict[str, int] = {}
    of_node = np.full(max(view.nodes, default=-1) + 1, -1, np.int64)
    for node in view.nodes.values():
        if node.gradient_of and node.phase == "backward":
            of_node[node.id] = names.setdefault(node.gradient_of, len(names))
    wanted = {int(number) for number in np.flatnonzero(of_node >= 0)}
    if len(wanted) != view.norms_of:
        view.norms.clear()
        view.norms_of = len(wanted)
    steps, known = view.recorded_steps, view.norms
    missing = [step for step in reversed(steps) if step not in known] if wanted else []
    if len(names) < _MANY:
        known.update(_norms_at_once(view, of_node, wanted, missing))
    else:
        known.update(_norms_by_step(view, of_node, missing, patience_s))
    found = {step: norm for step in steps if (norm := known.get(step)) is not None}
    if steps and view.recorded.state.kind == RUNNING:
        known.pop(steps[-1], None)  # more of it may still be written
    return found


def _norms_by_step(
    view: RankView, of_node: NDArray[np.int64], missing: list[int], patience_s: float
) -> Iterator[tuple[int, float | None]]:
    end = time.monotonic() + patience_s
    for step in missing:
        if time.monotonic() > end:
            break
        with view.sketching:
            rows = view.rows(step)
            rows = taken(rows, np.flatnonzero(of_node[rows["node"]] >= 0))
            square = float(_last_of_each(rows, of_node)[3].sum())
        yield step, math.sqrt(square) if len(rows) else None


def _norms_at_once(
    view: RankView, of_node: NDArray[np.int64], wanted: set[int], missing: list[int]
) -> dict[int, float | None]:
    found: dict[int, float | None] = dict.fromkeys(missing)
    rows_in_parts = view.recorded.parts_of_stats(wanted, set(missing)) if missing else ()
    parts = [_last_of_each(rows, of_node) for rows in rows_in_parts]
    if parts:
        last = _last(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        steps_found, index = np.unique(last[0], return_inverse=True)
        sums = np.zeros(len(steps_found))
        np.add.at(sums, index, last[3])
        found.update(zip(steps_found.tolist(), np.sqrt(sums).tolist(), strict=True))
    return found


Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Step, parameter, call and square of the norm of each gradient."""


def _last_of_each(rows: Records, of_node: NDArray[np.int64]) -> Columns:
    outputs = taken(rows, rows["io"] == OUTPUT)
    squares = np.where(bad_among(outputs), np.nan, outputs["l2"] ** 2)
    return _last(outputs["step"], of_node[outputs["node"]], outputs["call"], squares)


def _last(step: Any, name: Any, call: Any, square: Any) -> Columns:
    """Of each step and parameter, what was computed last."""
    order = np.lexsort((call, name, step))
    step, name, call, square = (column[order] for column in (step, name, call, square))
    ends = np.ones(len(order), bool)
    ends[:-1] = (step[1:] != step[:-1]) | (name[1:] != name[:-1])
    return step[ends], name[ends], call[ends], square[ends]


def _line(record: StepRecord, norms: dict[int, float], recorded: set[int], hits: int) -> StepLine:
    return {
        "step": record.step,
        "losses": _losses(record),
        "gradient_norm": norms.get(record.step),
        "seconds": None if math.isnan(record.seconds) else record.seconds,
        "operators": len(record.calls),
        "passes": record.calls.pass_count,
        "skipped": record.skipped,
        "complete": record.complete,
        "recorded": record.step in recorded,
        "hits": hits,
    }


def _lanes(view: RankView) -> list[Lane]:
    lanes: dict[int, Lane] = {}
    counts: dict[int, Counter[int]] = {}
    for hit in view.hits:
        number = int(hit.get("watchpoint", 0))
        label, condition = str(hit.get("label", "")), str(hit.get("condition", ""))
        lanes.setdefault(
            number,
            {
                "watchpoint": number,
                "label": label or condition,
                "condition": condition,
                "steps": [],
                "counts": [],
            },
        )
        counts.setdefault(number, Counter())[int(hit.get("step", 0))] += 1
    for number, lane in lanes.items():
        lane["steps"] = sorted(counts[number])
        lane["counts"] = [counts[number][step] for step in lane["steps"]]
    return [lanes[number] for number in sorted(lanes)]


def _losses(record: StepRecord) -> list[float]:
    return [loss.value for loss in record.losses]


def _stretches(count: int, points: int) -> list[range]:
    """So many steps cut into at most so many stretches of equal length."""
    size = max(1, math.ceil(count / max(1, points)))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _least(values: Sequence[float]) -> float | None:
    return min((v for v in values if not math.isnan(v)), default=values[0] if values else None)


def _largest(values: Sequence[float]) -> float | None:
    """The largest; NaN if any is, which nobody should overlook."""
    if any(math.isnan(value) for value in values):
        return math.nan
    return max(values, default=None)

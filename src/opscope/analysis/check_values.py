"""A watchpoint on the numbers of many values at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opscope.analysis.check_findings import Findings
from opscope.events import Node
from opscope.read.dump import HAS_INF
from opscope.stats.record import VALID
from opscope.watch.catalogue import check_saturated
from opscope.watch.evaluate import Place, hits_of, io_of, reason_text
from opscope.watch.numbers import Numbers
from opscope.watch.outcome import Outcome
from opscope.watch.selection import base_type
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
Indices = NDArray[np.intp]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_NEEDS = {
    "zero_percentage": ("zero",),
    "max": ("max",),
    "min": ("min",),
    "max_min": ("max", "min"),
    "mean": ("mean", HAS_INF),
    "abs_mean": ("mean_abs",),
    "range_percentage": ("min", "max", "nan", "negative", "positive"),
    "derivative": ("mean", "l2"),
}
"""What a row must have for a threshold to be checked."""
_UNREADABLE = "its file cannot be read"


@dataclass(frozen=True)
class Batch:
    """Values of one rank that watchpoints are checked on together."""

    rank: int
    records: Records
    nodes: Mapping[int, Node]
    parameters: Sequence[str] | None = None
    """For weights: which parameter each is."""
    known: frozenset[str] | None = None
    """Where rows are not whole: the numbers that they have."""
    whole: Flags | None = None
    """Which rows are whole all the same."""
    previous: NDArray[np.int64] | None = None
    """For weights: the step that each was compared with, -1 for none."""


def check_values(
    watchpoint: Watchpoint,
    batch: Batch,
    chosen: Indices,
    findings: Findings,
    more: Mapping[str, object] | None = None,
) -> None:
    """Check some of a batch; `more` has columns for `Numbers`, one entry per chosen value."""
    findings.values += len(chosen)
    valid = batch.records["valid"][chosen] == VALID
    if not valid.all():
        _cannot(watchpoint, batch, chosen[~valid], _UNREADABLE, findings)
        more = {name: take(column, valid) for name, column in (more or {}).items()}
        chosen = chosen[valid]
    for here in _groups(watchpoint, batch, chosen):
        columns = {name: take(column, here) for name, column in (more or {}).items()}
        records = batch.records[chosen[here]]
        node = batch.nodes[int(records["node"][0])]
        check = watchpoint.condition.check or check_saturated(base_type(node))
        outcome = check(Numbers.of_records(records, **columns), watchpoint.params)
        _report(watchpoint, batch, chosen[here], outcome, findings)


def _groups(watchpoint: Watchpoint, batch: Batch, chosen: Indices) -> Iterator[Flags]:
    """Which of the chosen values one check applies to."""
    if not len(chosen):
        return
    if watchpoint.condition.check is not None:
        yield np.ones(len(chosen), bool)
        return
    types = np.array([base_type(batch.nodes[n]) for n in batch.records["node"][chosen].tolist()])
    for op_type in np.unique(types):
        yield types == op_type


def _report(
    watchpoint: Watchpoint, batch: Batch, chosen: Indices, outcome: Outcome, findings: Findings
) -> None:
    lacking = _lacking(watchpoint, batch)
    hits, reasons = outcome.hits, outcome.reasons
    if lacking:
        unsure = ~batch.whole[chosen] if batch.whole is not None else np.ones(len(chosen), bool)
        if watchpoint.condition.nonfinite:
            unsure &= ~hits  # what is known to be there is there
        hits = hits & ~unsure
        reasons = np.where(unsure, 0, reasons).astype(np.uint8)
        reason = f"statistic.csv does not have {', '.join(lacking)}, and no tensor was saved"
        _cannot(watchpoint, batch, chosen[unsure], reason, findings)
    for code in np.unique(reasons[reasons > 0]).tolist():
        _cannot(watchpoint, batch, chosen[reasons == code], reason_text(code), findings)
    found = np.flatnonzero(hits)
    if not len(found):
        return
    records = batch.records[chosen]
    places = {int(i): _place(batch, int(chosen[i])) for i in found}
    for index, hit in zip(
        found.tolist(),
        hits_of(watchpoint, Outcome(hits, reasons, outcome.actual), records, places),
        strict=True,
    ):
        gap = _gap(batch, int(chosen[index])) if watchpoint.condition.needs_change else ""
        findings.hits.append(replace(hit, message=hit.message + gap) if gap else hit)


def _place(batch: Batch, index: int) -> Place:
    record = batch.records[index]
    return Place(
        int(record["step"]),
        batch.rank,
        batch.nodes[int(record["node"])],
        io_of(record),
        int(record["slot"]),
        int(record["call"]),
        batch.parameters[index] if batch.parameters is not None else "",
    )


def _gap(batch: Batch, index: int) -> str:
    """Said where the value before is not of the step before."""
    before = int(batch.previous[index]) if batch.previous is not None else -1
    step = int(batch.records["step"][index])
    return f" (since step {before})" if before >= 0 and before != step - 1 else ""


def _cannot(
    watchpoint: Watchpoint, batch: Batch, chosen: Indices, reason: str, findings: Findings
) -> None:
    if not len(chosen):
        return
    place = _place(batch, int(chosen[0]))
    about = place.parameter or f"{place.node.name}:{place.slot}"
    findings.cannot(watchpoint, reason, len(chosen), f"{about} in step {place.step}")


def _lacking(watchpoint: Watchpoint, batch: Batch) -> list[str]:
    """Numbers that a watchpoint needs and rows do not have."""
    if batch.known is None or watchpoint.condition.needs_change:
        return []
    if watchpoint.condition.nonfinite:
        needed = {"nan", "posinf", "neginf"}
    else:
        thresholds = (
            p.name for p in watchpoint.condition.thresholds if p.name in watchpoint.params
        )
        needed = {n for name in thresholds for n in _NEEDS.get(name.rpartition("_")[0], ())}
    return sorted(needed - batch.known)


def of_known_nodes(records: Records, nodes: Mapping[int, Node]) -> Flags:
    """Which rows are of nodes that are known; a run being written, or damaged, may have others."""
    limit = max(nodes, default=-1) + 1
    numbers = records["node"]
    if len(nodes) == limit:
        return numbers < limit
    there = np.zeros(limit + 1, bool)
    there[list(nodes)] = True
    known: Flags = there[np.minimum(numbers, limit)]
    return known


def take(column: object, chosen: Flags | Indices) -> object:
    """The chosen entries of a column, or of each column of a change."""
    if column is None or isinstance(column, np.ndarray):
        return column if column is None else column[chosen]
    return replace(column, **{n: c[chosen] for n, c in vars(column).items()})  # type: ignore[type-var]


def ends_of(watchpoint: Watchpoint) -> tuple[float, float]:
    """The range of a watchpoint; an end that is not given is infinite."""
    return (
        watchpoint.params.get("range_start_inclusive", -math.inf),
        watchpoint.params.get("range_end_inclusive", math.inf),
    )


def counts_range(watchpoint: Watchpoint) -> bool:
    """Whether a watchpoint asks how many elements are in a range."""
    return any(name.startswith("range_percentage") for name in watchpoint.params)


def in_range_by_rows(records: Records, ends: tuple[float, float]) -> tuple[Floats, Flags]:
    """How many elements are in a range, and where the rows tell.

    They do where all elements are on one side of each end, and for an end that is 0.
    """
    n = Numbers.of_records(records)
    always = np.ones(len(records), bool)
    numbers = n.count - n.nan
    low, high = ends
    below, knows_below = _beyond(n.min >= low, n.max < low, numbers)
    above, knows_above = _beyond(n.max <= high, n.min > high, numbers)
    if low == 0:
        below, knows_below = records["negative"].astype(np.float64), always
    if high == 0:
        above, knows_above = records["positive"].astype(np.float64), always
    known = (knows_below & knows_above) | (numbers == 0)
    inside = np.where(numbers == 0, 0.0, numbers - below - above)
    return np.maximum(inside, 0.0), known


def _beyond(none: Flags, all_: Flags, numbers: Floats) -> tuple[Floats, Flags]:
    return np.where(all_, numbers, 0.0), none | all_

"""Conditions on training as a whole, as far as a finished recording tells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from opscope.analysis.check_findings import Findings, Scope
from opscope.analysis.check_weights import Weights
from opscope.events import IO, Loss, Node, StepRecord
from opscope.read.hits import RecordedHit
from opscope.watch.conditions import training
from opscope.watch.hits import Hit
from opscope.watch.watchpoint import Watchpoint

_NUMBERS = ("min", "max", "mean", "mean_abs", "l2")
NOT_RECORDED = "only a training that runs can be checked for it, and the run has no such hit"


def check_losses(
    watchpoint: Watchpoint,
    steps: Sequence[StepRecord],
    scope: Scope,
    findings: Findings,
    call_of: Callable[[Node, int], int],
) -> None:
    """LN and LS on the losses of the steps; `call_of` gives a node's call in a step."""
    windows: dict[int, deque[float]] = {}
    for record in steps:
        for index, loss in enumerate(record.losses):
            wanted = scope.wants_step(record.step)
            findings.values += wanted
            message = _loss_message(watchpoint, index, loss, windows)
            if message and wanted:
                hit = _hit(watchpoint, record.step, scope.rank, message, loss.node)
                call = call_of(loss.node, record.step) if loss.node is not None else 0
                findings.hits.append(replace(hit, call=call))


def _loss_message(
    watchpoint: Watchpoint, index: int, loss: Loss, windows: dict[int, deque[float]]
) -> str:
    if watchpoint.condition.abbr == "LN":
        return f"the loss is {loss.value}" if training.loss_not_finite(loss.value, {}) else ""
    size = int(watchpoint.params["window"])
    window = windows.setdefault(index, deque(maxlen=size))
    above = training.loss_spike(loss.value, window, watchpoint.params)
    window.append(loss.value)
    if above is None:
        return ""
    return f"the loss is {loss.value:.6g}, {above:.3g} deviations above its median"


def check_unchanged(
    watchpoint: Watchpoint,
    weights: Weights,
    trained: Collection[str],
    scope: Scope,
    findings: Findings,
    nodes: dict[int, Node],
) -> None:
    """PU: parameters that are trained and have the same numbers in every step."""
    if not len(weights.records):
        return
    columns = [np.ascontiguousarray(weights.records[n]).view(np.int64) for n in _NUMBERS]
    bits = np.stack(columns, axis=1)
    same = (bits == bits[weights.previous]).all(axis=1) & (weights.previous >= 0)
    starts = np.flatnonzero(weights.previous < 0).tolist()
    for start, end in zip(starts, [*starts[1:], len(bits)], strict=True):
        name, last = weights.names[start], weights.records[end - 1]
        if name not in trained:
            continue
        findings.values += 1
        seen, unchanged = end - start - 1, int(same[start:end].sum())
        if training.never_changes(unchanged, seen, watchpoint.params):
            message = f"{name} has the same numbers in all of {seen + 1} steps"
            node = nodes.get(int(last["node"]))
            step = int(last["step"])
            findings.hits.append(_hit(watchpoint, step, scope.rank, message, node, name))


def take_recorded(
    watchpoint: Watchpoint, recorded: Sequence[RecordedHit], scope: Scope, findings: Findings
) -> None:
    """What the run itself found, for conditions that need a training that runs."""
    found = [hit for hit in recorded if hit.data.get("condition") == watchpoint.condition.abbr]
    if not found:
        findings.cannot(watchpoint, NOT_RECORDED)
    for hit in found:
        if scope.wants_step(hit.step):
            findings.hits.append(hit.of(watchpoint))


def _hit(
    watchpoint: Watchpoint,
    step: int,
    rank: int,
    message: str,
    node: Node | None,
    parameter: str = "",
) -> Hit:
    io = IO.OUTPUT if node is not None else None
    return Hit(watchpoint, step, rank, message, node, io, parameter=parameter)

"""GA: gradients that are added to those of the step before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Node, Outside
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.stats.record import INPUT

Records = NDArray[np.void]


def accumulated(steps_in_a_row: int, params: Params) -> bool:
    """Return whether gradients have not been cleared for long enough."""
    return steps_in_a_row >= params[STEPS]


class GradientNotCleared(TrainingCheck):
    """Follows what gradients are added to."""

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a step."""
        self._calls = Calls()
        self._old: dict[str, int] = {}
        self._uncleared: dict[str, int] = {}

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find gradients that grow from step to step."""
        calls = step.calls
        if not calls.is_wired_like(self._calls):
            self._calls, self._old = calls, _old_gradients(calls)
        old = self._old
        self.training.checked(self.watchpoint)
        if not old:
            self._uncleared.clear()
            return
        kept = _are_nonzero(step.records(), old)
        self._uncleared = {name: self._uncleared.get(name, 0) + 1 for name in old if name in kept}
        names = [
            name
            for name, steps in self._uncleared.items()
            if accumulated(steps, self.watchpoint.params) and self.training.is_owned(name)
        ]
        message = (
            "the gradients of {} are added to those of the step before: "
            "is optimizer.zero_grad() missing?"
        )
        yield from self.about(step, names, message, {n: calls.nodes[old[n]] for n in names})


def _old_gradients(calls: Calls) -> dict[str, int]:
    """Parameter → the call that adds to a gradient from before the step, if the last one does."""
    last = {node.gradient_of: call for call, node in enumerate(calls.nodes) if node.gradient_of}
    may_add = {node.gradient_of for node in set(calls.nodes) if _may_add_to_old(node)}
    found = {}
    for name, call in last.items():
        base = _base(call, calls) if name in may_add else None
        if base is not None:
            found[name] = base
    return found


def _may_add_to_old(node: Node) -> bool:
    """Tell whether a node has ever added a gradient to something from before a step."""
    if not node.gradient_of or not node.op.startswith("aten.add"):
        return False
    firsts = (sources[0] for sources in node.variants if sources)
    return any(isinstance(source, Outside) and source.kind == "outside" for source in firsts)


def _base(call: int, calls: Calls) -> int | None:
    """The first of the calls that have added up a gradient, if it adds to one from before."""
    gradient_of = calls.nodes[call].gradient_of
    while True:
        sources = calls.sources_of(call)
        source = sources[0] if sources else None
        if isinstance(source, Outside):
            adds = calls.nodes[call].op.startswith("aten.add")
            return call if adds and source.kind == "outside" else None
        before = calls.producer(call, 0)
        if before is None or calls.nodes[before].gradient_of != gradient_of:
            return None
        call = before


def _are_nonzero(records: Records, calls: Mapping[str, int]) -> set[str]:
    """Of which of these calls the first input held anything but zeros."""
    by_call = {call: name for name, call in calls.items()}
    rows = records[(records["io"] == INPUT) & (records["slot"] == 0)]
    rows = rows[np.isin(rows["call"], list(by_call))]
    return {by_call[int(row["call"])] for row in rows if row["zero"] < row["count"]}


GRADIENT_NOT_CLEARED = Condition(
    "GA",
    "gradient_not_cleared",
    TRAINING,
    "gradients are added to those of the step before",
    parameters=(Parameter(STEPS, 1, default=3.0),),
    training=GradientNotCleared,
)

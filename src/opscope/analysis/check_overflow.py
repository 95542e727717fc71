"""OO on a run: operators that turn sound inputs into NaN or Inf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.analysis.check_findings import Findings, Scope
from opscope.analysis.check_select import Selector
from opscope.analysis.check_values import of_known_nodes
from opscope.analysis.soundness import Birth, Soundness
from opscope.events import Node, Phase
from opscope.read.run import Rank
from opscope.stats.record import bad_among
from opscope.watch.evaluate import birth_hit
from opscope.watch.selection import base_type
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
_EMPTY = ("empty", "new_empty")


class Overflows:
    """Notes in which steps there is anything bad, and then follows those."""

    def __init__(
        self,
        watchpoints: Sequence[Watchpoint],
        scope: Scope,
        findings: Findings,
        selectors: Mapping[int, Selector],
    ) -> None:
        self._watchpoints = watchpoints
        self._scope = scope
        self._findings = findings
        self._selectors = selectors
        self._steps: set[int] = set()
        self._first: int | None = None

    def take(self, records: Records) -> None:
        """Look at more rows."""
        if not self._watchpoints or not len(records):
            return
        self._findings.values += len(records) * len(self._watchpoints)
        first = int(records["step"].min())
        self._first = first if self._first is None else min(first, self._first)
        bad = bad_among(records)
        self._steps.update(np.unique(records["step"][bad]).tolist())

    def check(self, rank: Rank) -> None:
        """Report where it began in each step."""
        if not self._steps or self._first is None:
            return
        _mark_empty(rank.nodes)
        records = {step.step: step for step in rank.steps}
        soundness = Soundness()
        for step in sorted(self._steps | {self._first}):
            soundness.begin()
            rows = rank.stats(steps={step})
            rows = rows[of_known_nodes(rows, rank.nodes)]
            calls = rank.calls(step, rows)
            births = [*soundness.follow(rows[rows["call"] < len(calls)], calls)]
            record = records.get(step)
            losses = [loss.call for loss in record.losses] if record is not None else []
            births += soundness.release(losses)
            aside = soundness.aside(births, losses)
            births = [birth for birth in births if birth not in aside]
            if record is not None and record.skipped:
                births = [b for b in births if b.node.phase is Phase.FORWARD]
            self._report(step, births)

    def _report(self, step: int, births: Sequence[Birth]) -> None:
        for watchpoint in self._watchpoints:
            for birth in births:
                if self._selectors[watchpoint.id].node(birth.node):
                    hit = birth_hit(watchpoint, birth, step, self._scope.rank)
                    self._findings.hits.append(hit)


def _mark_empty(nodes: Mapping[int, Node]) -> None:
    """A run does not say which outputs are memory that nobody wrote to; operators' types do."""
    for node in nodes.values():
        if base_type(node).startswith(_EMPTY):
            for output in node.outputs:
                output.uninitialised = True

"""The one evaluator of watchpoints: a running training feeds it, or whoever reads a recording.

It takes the steps of a rank in their order, each in one part or several, and says what hits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Node, StepRecord, UpdateFact
from opscope.judge.condition import TRAINING
from opscope.judge.evidence import Evidence
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit
from opscope.judge.lasting import needed_steps
from opscope.judge.origin import arrival
from opscope.judge.origin.birth import Birth
from opscope.judge.origin.soundness import BadInputs, Soundness
from opscope.judge.overflows import Overflows, StepPart
from opscope.judge.table import KindOf, Table
from opscope.judge.training import TrainingJudge
from opscope.judge.training_check import SeenStep
from opscope.judge.values import ValueChecks
from opscope.judge.watchpoint import Watchpoint

Records = NDArray[np.void]
__all__ = ["Evaluator", "StepPart", "Uses", "needs_every_step"]
Uses = tuple[NDArray[np.int32], Records]


class Evaluator:
    """Checks watchpoints on one rank."""

    def __init__(
        self,
        table: Table,
        evidence: Evidence,
        node_of: Callable[[int], Node],
        kind_of: KindOf,
        *,
        rank: Callable[[], int] = lambda: 0,
        bad_inputs: BadInputs = lambda node, call: (),
        findings: Findings | None = None,
        first_step: int = 0,
        has_edges: bool = True,
    ) -> None:
        """`bad_inputs` are those that were seen to be bad though no row says so.

        Without edges it is not known where NaN and Inf began.
        """
        self.table = table
        self.training = TrainingJudge(table, rank, findings, kind_of)
        self.overflows = Overflows(Soundness(bad_inputs), table, findings)
        self.on_uses: Callable[[int, Uses], None] = lambda step, uses: None
        """Called with the parameters that a complete step used, and their rows."""
        self._values = ValueChecks(table, evidence, node_of, findings, first_step)
        self._kind_of = kind_of
        self._rank = rank
        self._has_edges = has_edges
        self._watchpoints: Sequence[Watchpoint] = ()

    @property
    def soundness(self) -> Soundness:
        """The soundness of the values of the step under way."""
        return self.overflows.soundness

    @property
    def watchpoints(self) -> Sequence[Watchpoint]:
        """The watchpoints that are checked."""
        return self._watchpoints

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Check these from now on."""
        self._watchpoints = watchpoints
        self.table.watch([w for w in watchpoints if w.condition.target != TRAINING])
        self.training.watch(watchpoints)
        self.overflows.watch(watchpoints)
        self._values.watch(watchpoints)

    def learn(self, count: int, renewed: Iterable[Node] = ()) -> None:
        """Take in that there are so many nodes now, and that some have other inputs."""
        for node in self.table.learn(count):
            self.training.observe_node(node)
        self.table.renew(renewed)

    def examine(self, part: StepPart) -> list[Hit]:
        """Check what is new of a step."""
        rank = self._rank()
        hits: list[Hit] = []
        if self._has_edges:
            hits += self.overflows.check(part, rank)
        hits += self._values.check(part, rank)
        if part.ended is not None:
            hits += self._at_end(part.ended, part.updates)
        return [_in_its_pass(hit, part.calls) for hit in hits]

    def end_step(self) -> None:
        """Forget the step, which is over."""
        self._values.take_uses()
        self.overflows.end_step()

    def counts(self, birth: Birth) -> bool:
        """Return whether nobody asked to leave the operator of a birth alone."""
        return self.overflows.counts(birth)

    def _at_end(self, record: StepRecord, updates: Sequence[UpdateFact]) -> Iterator[Hit]:
        """Check what is known only when a step has ended."""
        uses = self._values.take_uses()
        if not record.complete:
            return
        if uses is not None:
            self.training.observe_parameters(record.step, *uses)
            self.table.note_shapes(*uses, self._kind_of)
            self.on_uses(record.step, uses)
        yield from self.training.check(
            SeenStep(
                record.step,
                record.losses,
                record.calls,
                self.soundness.records,
                record.skipped,
                self.soundness.row,
                lambda: arrival.used_losses(record.calls, record.losses, updates, record),
            )
        )


def _in_its_pass(hit: Hit, calls: Calls) -> Hit:
    """A hit that names the pass, where a step has several."""
    if hit.node is None or hit.call >= len(calls):
        return hit
    return replace(hit, pass_number=calls.pass_among_several(hit.call))


def needs_every_step(watchpoints: Collection[Watchpoint]) -> bool:
    """Return whether some watchpoint cannot be judged by the steps alone that are asked for."""
    return any(
        w.condition.target == TRAINING or w.condition.needs_change or needed_steps(w) > 1
        for w in watchpoints
    )

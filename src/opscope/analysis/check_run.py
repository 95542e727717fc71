"""Watchpoints on a run: its steps go through the evaluator as they went while it ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from opscope.analysis.recorded_steps import Records, rows_by_step
from opscope.analysis.row_evidence import RowEvidence
from opscope.analysis.scope import CheckedPart
from opscope.calls import Calls
from opscope.events import Node, ParameterFact
from opscope.judge.condition import TRAINING
from opscope.judge.evaluator import Evaluator, StepPart, Uses, needs_every_step
from opscope.judge.findings import Findings
from opscope.judge.history import digests
from opscope.judge.hits import Hit
from opscope.judge.notes import Note
from opscope.judge.table import Table, says_ignore
from opscope.judge.watchpoint import Watchpoint
from opscope.read.facts import StepFacts
from opscope.read.hits import read_hits
from opscope.read.run import Rank, Run
from opscope.read.state import KILLED, RUNNING
from opscope.stats.record import ROW_DTYPE

NOTHING = "it selects nothing that was recorded"
NO_FACTS = "the run does not say what training did with its parameters: it was not watched"
NO_FEATURES = "the run does not say what the features of its data were like: nobody asked for it"
_NO_FIRST = "step 0 is not among those that are checked"


class RunCheck:
    """Checks one rank of a run."""

    def __init__(
        self,
        run: Run,
        rank: Rank,
        watchpoints: Sequence[Watchpoint],
        scope: CheckedPart,
        findings: Findings,
    ) -> None:
        self.hits: list[Hit] = []
        self.notes: list[Note] = []
        """Notes on what did no harm."""
        self.signatures: dict[int, int] = {}
        """By step: a number that is another one if some parameter is."""
        self._run = run
        self._rank = rank
        self._scope = scope
        self._findings = findings
        self._nodes = rank.nodes
        self._records = {record.step: record for record in rank.steps}
        self.facts = rank.facts
        """Facts that only the training itself knew."""
        self._watchpoints = [w for w in watchpoints if self._can_be_checked(w)]
        self._bad_inputs: Mapping[int, Sequence[int]] = {}
        self.evaluator = Evaluator(
            Table(self._nodes.get, scope.include, self._is_ignored),
            RowEvidence(rank.types.get, scope.kept),
            self._nodes.__getitem__,
            rank.types.get,
            rank=lambda: scope.rank,
            bad_inputs=lambda node, call: self._bad_inputs.get(call, ()),
            findings=findings,
        )
        self.evaluator.on_uses = self._note_parameters
        self.evaluator.overflows.on_note = self._add_note
        self.evaluator.watch(self._watchpoints)
        if not self.facts.has_parameters:
            self._infer_facts()

    def check(self, progress: Callable[[int, int], None]) -> None:
        """Check the rank."""
        self._findings.note(_what_is_missing(self._rank))
        before = {w.id: self._findings.seen(w) for w in self._watchpoints}
        every = needs_every_step(self._watchpoints)
        first: int | None = None
        for step, records, done in self._steps():
            first = step if first is None else first
            wanted = self._scope.wants_step(step)
            if wanted or every or step == first:
                self._findings.paused = not wanted
                hits = self._step(step, records)
                self.hits += hits if wanted else ()
            progress(done, max(1, self._rank.part_count))
        self._findings.paused = False
        for watchpoint in self._watchpoints:
            if watchpoint.condition.target != TRAINING and watchpoint.condition.abbr != "OO":
                self._note_nothing(watchpoint, before[watchpoint.id])

    def _steps(self) -> Iterator[tuple[int, Records, int]]:
        """All steps, also those that have no rows, or none any more."""
        without = deque(sorted(self._records))
        for step, records, done in rows_by_step(self._rank):
            while without and without[0] < step:
                yield without.popleft(), records[:0], done
            if without and without[0] == step:
                without.popleft()
            yield step, records, done
        for step in without:
            yield step, np.empty(0, ROW_DTYPE), self._rank.part_count

    def _step(self, step: int, records: Records) -> list[Hit]:
        record = self._records.get(step)
        calls = self._rank.calls(step, records)
        if len(records) and int(records["call"].max()) >= len(calls):
            records = records[records["call"] < len(calls)]
        facts = self.facts.of_step.get(step)
        self._bad_inputs = {} if facts is None else facts.bad_inputs
        for update in () if facts is None else facts.updates:
            self.evaluator.training.observe_facts(step, update)
        if facts is not None:
            self.evaluator.training.observe_groups(step, facts.groups)
            self._observe_values(facts)
        self._learn(records)
        losses = () if record is None else record.losses
        facts = facts or StepFacts()
        noticed = {*facts.raised, *facts.taken}
        part = StepPart(step, calls, records, losses, record, facts.not_finite, noticed)
        hits = self.evaluator.examine(part)
        self.evaluator.end_step()
        return hits

    def _observe_values(self, facts: StepFacts) -> None:
        """Take in what the training saw in the values themselves."""
        for features in facts.features:
            self.evaluator.training.observe_features(features)
        if facts.equal_rows:
            self.evaluator.training.observe_equal_rows(facts.equal_rows)

    def _learn(self, records: Records) -> None:
        """Nodes are numbered as they turn up."""
        if len(records):
            self.evaluator.learn(int(records["node"].max()) + 1)

    def digests_of(self, step: int) -> dict[str, str]:
        """Return by parameter a digest of its numbers in a step."""
        records = self._rank.stats(steps={step})
        calls: Calls = self._rank.calls(step, records)
        rows, numbers = self.evaluator.table.parameter_rows(records, calls)
        names = [self.evaluator.table.parameters[number] for number in numbers.tolist()]
        return digests(names, records[rows])

    def _note_parameters(self, step: int, uses: Uses) -> None:
        if self.facts.replicated_from is not None and step >= self.facts.replicated_from:
            numbers, records = uses
            names = [self.evaluator.table.parameters[number] for number in numbers.tolist()]
            self.signatures[step] = hash(frozenset(digests(names, records).items()))

    def _add_note(self, note: Note) -> None:
        if self._scope.wants_step(note.step):
            self.notes.append(note)

    def _can_be_checked(self, watchpoint: Watchpoint) -> bool:
        """Tell whether a run can be asked; if not, what it found itself counts."""
        check = watchpoint.condition.training
        if check is not None and check.needs_features and not self.facts.has_features:
            self._findings.cannot(watchpoint, NO_FEATURES)
            return False
        if check is None or not check.needs_facts or self.facts.has_parameters:
            return True
        found = [
            hit.of(watchpoint)
            for hit in read_hits(self._rank.path, self._nodes)
            if hit.data.get("condition") == watchpoint.condition.abbr
        ]
        self.hits += [hit for hit in found if self._scope.wants_step(hit.step)]
        if not found:
            self._findings.cannot(watchpoint, NO_FACTS)
        return False

    def _infer_facts(self) -> None:
        """Take what has a gradient for trained, as far as a run tells that was not watched."""
        trained = {node.gradient_of for node in self._nodes.values() if node.gradient_of}
        for name in sorted(trained):
            self.evaluator.training.facts[name] = ParameterFact(name, False, True, True, False)

    def _note_nothing(self, watchpoint: Watchpoint, before: int) -> None:
        if self._findings.seen(watchpoint) > before:
            return
        has_first = 0 in self._rank.recorded_steps and self._scope.wants_step(0)
        first_only = watchpoint.condition.first_step_only
        reason = _NO_FIRST if first_only and not has_first else NOTHING
        self._findings.cannot(watchpoint, reason)

    def _is_ignored(self, node: Node) -> bool:
        frame = node.stack.where
        code = self._run.code(frame) if frame is not None else None
        return code is not None and says_ignore(code)


def _what_is_missing(rank: Rank) -> Iterator[str]:
    state, end = rank.state, rank.end
    where = f"rank {rank.number}"
    if state.kind == RUNNING:
        yield f"{where} is still running"
    if state.kind == KILLED:
        yield f"{where} ended without saying so"
    if end.get("thinned_rows"):
        yield f"{where} has only some of its older steps: its budget was used up"
    if end.get("dropped_rows"):
        yield f"{where} dropped {end['dropped_rows']} of its oldest rows: its budget was used up"
    if state.incomplete:
        yield f"{where} stopped writing early: {state.incomplete}"

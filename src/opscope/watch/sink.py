"""The sink that checks watchpoints while training runs, tells of hits and ends training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import (
    BaseSink,
    Call,
    GroupFact,
    LossRecord,
    Node,
    Outside,
    ParameterFact,
    PassingValue,
    StepRecord,
    StepSoFar,
    UpdateFact,
    Want,
)
from opscope.judge.catalogue import NONFINITE
from opscope.judge.conditions.ranks_differ import RanksDiffer
from opscope.judge.evaluator import Evaluator, StepPart, Uses
from opscope.judge.hits import Hit
from opscope.judge.origin import verdict as verdicts
from opscope.judge.origin.arrival import losses_before
from opscope.judge.table import Table
from opscope.judge.watch_set import WatchSet
from opscope.messages import say, say_once
from opscope.rows import Rows
from opscope.stats.glance import Glance
from opscope.stats.record import joined
from opscope.stats.two_tensors import Difference
from opscope.watch.compared import TensorComparison
from opscope.watch.culprit import culprit
from opscope.watch.ending import end_training
from opscope.watch.equal_rows import EqualRows
from opscope.watch.fact_log import FactLog
from opscope.watch.features import Features
from opscope.watch.hit_log import HitLog
from opscope.watch.hit_reporter import HitReporter
from opscope.watch.note_log import NoteLog
from opscope.watch.ranks import Digests, Ranks
from opscope.watch.reaction import PAUSE, STOP, Reaction
from opscope.watch.saving import HitState
from opscope.watch.witness import Witness

Records = NDArray[np.void]
_ROWS = Want.OUTPUT_STATS | Want.OUTSIDE_STATS


class WatchSink(BaseSink):
    """Checks the watchpoints of one rank."""

    def __init__(
        self,
        watch: WatchSet,
        reaction: Reaction,
        log: HitLog,
        *,
        include: Collection[str] = (),
        state: HitState | None = None,
        facts: FactLog | None = None,
        notes: NoteLog | None = None,
    ) -> None:
        self.watch = watch
        self.log = log
        self.on_change: Callable[[], None] = lambda: None
        """Called when other watchpoints than before are set."""
        self.renew_plans: Callable[[], None] = lambda: None
        """Has the pipeline ask anew what is wanted of nodes."""
        self.hold: Callable[[int, str], bool] = lambda step, message: False
        """Asked before a hit ends training: True, perhaps after a while, lets it go on."""
        self.is_attended: Callable[[], bool] = lambda: False
        """Tells whether somebody looks at this rank who can answer."""
        self._attended = False
        """True if somebody looks at any rank, as the ranks know alike."""
        self._met_in = -1
        """The last step in which the ranks have met before its update."""
        self.ended = False
        """True if training was told to end, by this rank or another."""
        self._state = state
        self._facts = facts or FactLog(None)
        self.notes = notes or NoteLog(None)
        """Notes on what did no harm: batches that the script skipped, values that were masked."""
        self.bad_gradients: Callable[[], Sequence[str]] = tuple
        """Asked as an optimizer is about to step: its parameters whose gradient is not finite."""
        self._updates: list[UpdateFact] = []
        """Those of the step under way that something was not finite in."""
        self.rank = 0
        self._nodes: list[Node] = []
        self._kinds: Sequence[tuple[str, tuple[int, ...]]] = ()
        table = Table(self._nodes.__getitem__, include)
        self._compared = TensorComparison(table)
        self._features = Features()
        self._equal_rows = EqualRows()
        self.witness = Witness()
        """Sees operators with bad outputs while they run, on the CPU."""
        self._evaluator = Evaluator(
            table,
            self._compared,
            self._nodes.__getitem__,
            lambda number: self._kinds[number],
            rank=lambda: self.rank,
            bad_inputs=self._bad_inputs,
        )
        self._evaluator.on_uses = self._note_parameters
        self._evaluator.overflows.on_skipped = self._say_skipped
        self._evaluator.overflows.on_note = self.notes.add
        self._reporter = HitReporter(log, reaction, state)
        self._reporter.culprit = lambda birth: culprit(
            birth, self.witness.values(birth), self.witness.entered(birth)
        )
        self.ranks = Ranks()
        self._under_way = 0
        """On a GPU this is not always the step that is looked at."""
        self._pending: list[Rows] = []
        self._examined = 0
        self._revision = -1
        self._skipped = 0

    @property
    def stopping(self) -> Hit | None:
        """The hit that ends training, once there is one."""
        return self._reporter.stopping

    @property
    def step(self) -> int:
        """The step under way."""
        return self._under_way

    # ------------------------------------------------------------------ the sink

    def open(self, rank: int) -> None:
        self.rank = rank
        self.log.open(rank)
        self._facts.open(rank)
        self.notes.open(rank)
        if self._state is not None:
            self._state.rank = rank

    def wants(self, node: Node) -> Want:
        if not self.watch.enabled:
            return Want.NOTHING
        if not self._evaluator.table.is_watched(node):
            return Want.NOTHING
        more = self._compared.wants(node) | self._features.wants(node)
        more |= self._equal_rows.wants(node)
        return _ROWS | more if more else _ROWS

    def node(self, node: Node) -> None:
        self._nodes.append(node)

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._features.inputs(call, values)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._compared.outputs(call, values)

    def parameter(self, call: Call, source: Outside, tensor: Any) -> None:
        self._compared.parameter(call.step, source.name, tensor)
        self._equal_rows.parameter(source.name, tensor)

    def step_begin(self, step: int) -> None:
        self._under_way = step
        self._renew()

    def before_update(
        self,
        so_far: StepSoFar,
        facts: Callable[[], Sequence[ParameterFact]],
        groups: Callable[[], Sequence[GroupFact]],
    ) -> None:
        training = self._evaluator.training
        if training.wants_facts(self._under_way):
            found = facts()
            training.observe_facts(self._under_way, found)
            self._facts.add_parameters(self._under_way, found)
            settings = groups()
            training.observe_groups(self._under_way, settings)
            self._facts.add_groups(self._under_way, settings)
        # What else may end training waits for the end of the step, unless it was asked to.
        may_wait = self._reporter.reaction.kinds <= NONFINITE
        if may_wait and not so_far.may_be_bad:
            return
        calls, losses, rows = so_far.calls(), so_far.losses(), so_far.rows()
        is_bad = any(part.has_bad for part in rows)
        if is_bad:
            self._note_update(calls, losses, facts)
        if rows and (is_bad or not may_wait):
            self._examine(self._under_way, calls, [*self._pending, *rows], losses)

    def _note_update(
        self,
        calls: Calls,
        losses: Sequence[LossRecord],
        facts: Callable[[], Sequence[ParameterFact]],
    ) -> None:
        """Note what is not finite of what an optimizer is about to use."""
        stepping = [fact.name for fact in facts() if fact.stepping]
        wrong = losses_before(calls, losses, stepping)
        update = UpdateFact(len(calls), tuple(wrong), tuple(self.bad_gradients()))
        if update.losses or update.gradients:
            self._updates.append(update)
            self._facts.add_update(self._under_way, update)

    def stats(self, rows: Rows) -> None:
        self._pending.append(rows)

    def step_end(self, record: StepRecord) -> None:
        rows, self._pending = self._pending, []
        if record.complete:
            self._note_values(record)
        self._examine(record.step, record.calls, rows, record.losses, record)
        self._updates.clear()
        self.witness.end_step(birth.node for birth in self._evaluator.soundness.births)
        self._facts.end_step(record.step)
        self._evaluator.end_step()
        self._compared.end_step(record.step)
        self._examined = 0
        self._reporter.end_step()

    def _note_values(self, record: StepRecord) -> None:
        """Note what was seen in values themselves, for the conditions and for a later check."""
        training = self._evaluator.training
        for fact in self._features.end_step(record.calls):
            training.observe_features(fact)
            self._facts.add_features(record.step, fact)
        alike = self._equal_rows.end_step(record.step)
        if alike:
            training.observe_equal_rows(alike)
            self._facts.add_equal_rows(record.step, alike)

    def close(self) -> None:
        self.ranks.leave()
        self.log.close()
        self._facts.close()
        self.notes.close()

    def summary(self) -> str:
        """Return what to say in the end."""
        parts = []
        if self.log.count:
            hits = _counted(self.log.count, "hit")
            parts.append(f"{hits} of {_counted(len(self.log.watchpoints), 'watchpoint')}")
        if self._skipped:
            updates = _counted(self._skipped, "update")
            parts.append(f"{updates} with non-finite gradients skipped by the gradient scaler")
        if self.notes.skipped:
            batches = f"{self.notes.skipped} batch{'es' if self.notes.skipped > 1 else ''}"
            parts.append(f"{batches} with NaN or Inf skipped by the script (notes.jsonl)")
        return "; ".join(parts)

    def changes(self, step: int) -> list[tuple[str, tuple[float, float, bool], Difference]]:
        """Return the moves of the parameters that a step used, as far as watchpoints asked."""
        return self._compared.changes(step)

    # ------------------------------------------------------------------ checking

    def _renew(self) -> None:
        if self._revision != self.watch.revision:
            self._revision = self.watch.revision
            self._evaluator.watch(self.watch.enabled)
            self._compared.watch(self.watch.enabled)
            self._features.watch(self.watch.enabled)
            self._equal_rows.watch(self.watch.enabled)
            self.on_change()
        elif self._features.take_change() | self._equal_rows.take_change():
            self.on_change()

    def _examine(
        self,
        step: int,
        calls: Calls,
        rows: Sequence[Rows],
        losses: Sequence[LossRecord],
        record: StepRecord | None = None,
    ) -> None:
        """Check what has not been checked of the step; there is a record when it has ended."""
        if self.stopping is not None:
            return  # training ends: what comes after the hit is its consequence
        self._renew()
        if rows:
            self._kinds = rows[0].kinds
        records, seen = _beyond(rows, self._examined)
        self._examined += len(records)
        self._evaluator.learn(len(self._nodes), calls.renewed)
        if self._compared.misses(calls.renewed):
            self.renew_plans()
        noticed = {*self._raised(record), *calls.taken}
        part = StepPart(step, calls, records, losses, record, tuple(self._updates), noticed, seen)
        hits = self._evaluator.examine(part)
        if record is not None:
            self._note_taken(step, calls)
        if hits:
            self._reporter.tell(
                hits,
                lambda more: self._verdict_step(step, losses, more),
                self._evaluator.counts,
            )

    def _raised(self, record: StepRecord | None) -> Sequence[int]:
        """The calls of a step that was left which have raised, noted for a later check."""
        if record is None or record.complete:
            return ()
        found = [call for call, node in enumerate(record.calls.nodes) if node.raised]
        if found:
            self._facts.add_raised(record.step, found)
        return found

    def _note_taken(self, step: int, calls: Calls) -> None:
        """Note for a later check which bad values the script took as numbers."""
        found = sorted(calls.taken.intersection(self._evaluator.soundness.bad_slots))
        if found:
            self._facts.add_taken(step, found)

    def _verdict_step(
        self, step: int, losses: Sequence[LossRecord], with_earlier: bool
    ) -> verdicts.Step:
        return verdicts.Step(
            step,
            self.rank,
            self._evaluator.soundness,
            self._nodes.__getitem__,
            self._kinds.__getitem__,
            [loss.call for loss in losses],
            self.log.earlier(step) if with_earlier else None,
        )

    def _bad_inputs(self, node: Node, call: int) -> Sequence[int]:
        """Note what the witness saw, so that a later check knows it too."""
        found = self.witness.bad_inputs(node, call)
        if found:
            self._facts.add_bad_inputs(call, found)
        return found

    def _say_skipped(self, step: int) -> None:
        self._skipped += 1
        say_once(
            f"step {step}: the gradients are not finite and the gradient scaler "
            "skips the update, as it does; this is not a hit",
            "scaler",
        )

    def _note_parameters(self, step: int, uses: Uses) -> None:
        numbers, rows = uses
        if not self.ranks.are_compared:
            return
        names = [self._evaluator.table.parameters[number] for number in numbers]
        self.ranks.note(step, names, rows)
        self._facts.add_replicated(step)

    # ------------------------------------------------------------------ ranks and stopping

    def safe_point(self, step: int, before_update: bool) -> None:
        """Hold or end training here if that is asked for, on all ranks together."""
        meets = self._attended and self._met_in != step
        if before_update and self.stopping is None and not meets:
            return
        other = None
        if self.ranks.agreement.possible and self._must_agree() and self._is_time(step):
            other = self._agree()
            if before_update:
                self._met_in = step
        if self.stopping is not None:
            message = self.stopping.message
        elif other is not None:
            message = f"rank {other} has a hit"
        else:
            return
        if self.hold(step if self.stopping is None else self.stopping.step, message):
            self._reporter.stopping = None
            return
        if self.stopping is None:
            say(f"rank {other} has a hit and ends training: rank {self.rank} ends as well")
        self.ended = True
        end_training()

    def _is_time(self, step: int) -> bool:
        """Tell whether the others come to a meeting now.

        They do so at the end of every step and, where somebody looks, before its first update. A
        rank with a hit may come before the update to the meeting that others come to at the end.
        """
        return self._attended or self._met_in != step

    def _must_agree(self) -> bool:
        compares = any(w.condition.abbr == "RD" for w in self.watch.enabled)
        return self._reporter.reaction.on_hit in (STOP, PAUSE) or compares

    def _agree(self) -> int | None:
        """Meet the other ranks; returns the first of them that has a hit."""
        decision = self.ranks.meet(self.stopping is not None, self.is_attended())
        self._attended = decision.attended
        if decision.differing is not None:
            self._tell_difference(*decision.differing)
        return decision.stopping

    def _tell_difference(self, step: int, parameters: Sequence[Digests]) -> None:
        for check in self._evaluator.training.checks:
            hits = list(check.compare(step, parameters)) if isinstance(check, RanksDiffer) else []
            if hits and self.rank == 0:
                self._reporter.tell(hits, None, self._evaluator.counts)
            elif hits and self.stopping is None and self._reporter.reaction.stops_at("RD"):
                self._reporter.stopping = hits[0]  # as rank 0 does, which tells of it


def _beyond(rows: Sequence[Rows], count: int) -> tuple[Records, Glance | None]:
    """All records but the first so many, and what was seen of just these."""
    if not count and len(rows) == 1:
        return rows[0].records, rows[0].glance
    parts = []
    for part in rows:
        if count < len(part.records):
            parts.append(part.records[count:])
        count = max(0, count - len(part.records))
    records = joined(parts)
    return records, rows[0].look(records) if rows else None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"

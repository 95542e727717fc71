"""The sink that checks watchpoints while training runs, tells of hits and ends training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.analysis import verdict as verdicts
from opscope.analysis.soundness import Birth, Soundness
from opscope.calls import Calls
from opscope.events import (
    BaseSink,
    Call,
    Loss,
    Node,
    Outside,
    ParameterFact,
    Phase,
    StepRecord,
    Value,
    Want,
)
from opscope.messages import say, say_once
from opscope.rows import Rows
from opscope.stats.record import has_bad, joined
from opscope.watch.catalogue import NONFINITE, TRAINING
from opscope.watch.compared import Compared
from opscope.watch.ending import end_training
from opscope.watch.evaluate import birth_hit
from opscope.watch.hit_log import HitLog
from opscope.watch.hits import Hit
from opscope.watch.ranks import Digests, Ranks
from opscope.watch.reaction import STOP, Reaction
from opscope.watch.saving import HitState
from opscope.watch.table import Table, is_ignored
from opscope.watch.telling import Teller
from opscope.watch.training import TrainingWatch
from opscope.watch.values import ValueChecks
from opscope.watch.watch_set import WatchSet
from opscope.watch.watchpoint import Watchpoint
from opscope.watch.witness import Witness

Records = NDArray[np.void]
_ROWS = Want.OUTPUT_STATS | Want.OUTSIDE_STATS
_BIRTHS = 20
"""So many operators at fault are hits of their own in one step."""


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
    ) -> None:
        self.watch = watch
        self.log = log
        self.on_change: Callable[[], None] = lambda: None
        """Called when other watchpoints than before are set."""
        self.ended = False
        """Whether training was told to end, by this rank or another."""
        self._state = state
        self.rank = 0
        self._nodes: list[Node] = []
        self._table = Table(self._nodes.__getitem__, include)
        self._training = TrainingWatch(self._table, lambda: self.rank)
        self._compared = Compared(self._table)
        self.witness = Witness()
        """Sees operators with bad outputs while they run, on the CPU."""
        self._soundness = Soundness(self.witness.bad_inputs)
        self._values = ValueChecks(self._table, self._compared, self._nodes.__getitem__)
        self._teller = Teller(log, reaction, state)
        self.ranks = Ranks()
        self._step = 0
        """The step that is looked at, which on a GPU is not always the one under way."""
        self._under_way = 0
        self._pending: list[Rows] = []
        self._examined = 0
        self._kinds: Sequence[tuple[str, tuple[int, ...]]] = ()
        self._revision = -1
        self._skipped = 0
        self._aside: list[Birth] = []
        """Faults of the step that training has nothing to do with so far."""

    @property
    def stopping(self) -> Hit | None:
        """The hit that ends training, once there is one."""
        return self._teller.stopping

    @property
    def step(self) -> int:
        """The step under way."""
        return self._under_way

    # ------------------------------------------------------------------ the sink

    def open(self, rank: int) -> None:
        self.rank = rank
        self.log.open(rank)
        if self._state is not None:
            self._state.rank = rank

    def wants(self, node: Node) -> Want:
        if not self.watch.enabled:
            return Want.NOTHING
        if not self._table.is_watched(node):
            return Want.NOTHING
        more = self._compared.wants(node)
        return _ROWS | more if more else _ROWS

    def node(self, node: Node) -> None:
        self._nodes.append(node)
        self._training.observe_node(node)

    def outputs(self, call: Call, values: Sequence[Value]) -> None:
        self._compared.outputs(call, values)

    def parameter(self, call: Call, source: Outside, tensor: Any) -> None:
        self._compared.parameter(call.step, source.name, tensor)

    def step_begin(self, step: int) -> None:
        self._under_way = step
        self._renew()

    def before_update(
        self,
        calls: Calls,
        rows: Sequence[Rows],
        losses: Sequence[Loss],
        facts: Callable[[], Sequence[ParameterFact]],
    ) -> None:
        if self._training.wants_facts(self._under_way):
            self._training.observe_facts(self._under_way, facts())
        if rows and self._may_stop(rows):
            self._step = self._under_way
            self._examine(calls, [*self._pending, *rows], losses)

    def stats(self, rows: Rows) -> None:
        self._pending.append(rows)

    def step_end(self, record: StepRecord) -> None:
        rows, self._pending = self._pending, []
        self._step = record.step
        self._table.renew(record.calls.renewed)
        self._examine(record.calls, rows, record.losses, record)
        self.witness.end_step(birth.node for birth in self._soundness.births)
        self._soundness.begin()
        self._examined = 0
        self._aside = []
        self._teller.end_step()

    def close(self) -> None:
        self.ranks.leave()
        self.log.close()

    def summary(self) -> str:
        """What to say in the end."""
        parts = []
        if self.log.count:
            hits = _counted(self.log.count, "hit")
            parts.append(f"{hits} of {_counted(len(self.log.watchpoints), 'watchpoint')}")
        if self._skipped:
            updates = _counted(self._skipped, "update")
            parts.append(f"{updates} with non-finite gradients skipped by the gradient scaler")
        return "; ".join(parts)

    # ------------------------------------------------------------------ checking

    def _renew(self) -> None:
        if self._revision != self.watch.revision:
            self._revision = self.watch.revision
            self._table.watch([w for w in self.watch.enabled if w.condition.target != TRAINING])
            self._compared.watch(self.watch.enabled)
            self.on_change()

    def _may_stop(self, rows: Sequence[Rows]) -> bool:
        """Whether something may end training before the update; all else waits for the end."""
        kinds = self._teller.reaction.kinds
        return not kinds <= NONFINITE or any(has_bad(part.records) for part in rows)

    def _examine(
        self,
        calls: Calls,
        rows: Sequence[Rows],
        losses: Sequence[Loss],
        record: StepRecord | None = None,
    ) -> None:
        """Check what has not been checked of the step; there is a record when it has ended."""
        if self.stopping is not None:
            return  # training ends: what comes after the hit is its consequence
        self._renew()
        if rows:
            self._kinds = rows[0].kinds
        records = _beyond(rows, self._examined)
        self._examined += len(records)
        self._table.learn(len(self._nodes))
        skipped = record is not None and record.skipped
        hits = [
            *self._overflows(calls, records, losses, skipped),
            *self._values.check(self.watch.enabled, records, self.rank),
        ]
        if record is not None:
            hits += self._at_end(record)
        if hits:
            hits = [_in_its_pass(hit, calls) for hit in hits]
            self._teller.tell(hits, lambda more: self._verdict_step(losses, more), self._counts)

    def _verdict_step(self, losses: Sequence[Loss], with_earlier: bool) -> verdicts.Step:
        return verdicts.Step(
            self._step,
            self.rank,
            self._soundness,
            self._nodes.__getitem__,
            self._kinds.__getitem__,
            [loss.call for loss in losses],
            self.log.earlier(self._step) if with_earlier else None,
        )

    def _overflows(
        self, calls: Calls, records: Records, losses: Sequence[Loss], skipped: bool
    ) -> Iterator[Hit]:
        """Hits of OO: where NaN and Inf began."""
        births = self._soundness.follow(records, calls)
        ends = [loss.call for loss in losses]
        births += self._soundness.release(ends)
        births = [*self._aside, *(b for b in births if self._table.is_watched(b.node))]
        self._aside = self._soundness.aside(births, ends)
        births = [birth for birth in births if birth not in self._aside]
        if skipped:
            kept = [b for b in births if _is_forward(b.node)]
            if len(kept) < len(births) or not births:
                self._skipped += 1
                say_once(
                    f"step {self._step}: the gradients are not finite and the gradient scaler "
                    "skips the update, as it does; this is not a hit",
                    "scaler",
                )
            births = kept
        for watchpoint in self.watch.enabled if births else ():
            if watchpoint.condition.abbr == "OO":
                for birth in births[:_BIRTHS]:
                    if self._is_selected(watchpoint, birth.node):
                        yield birth_hit(watchpoint, birth, self._step, self.rank)

    def _counts(self, birth: Birth) -> bool:
        """Whether nobody asked to leave this operator alone."""
        node = birth.node
        asked = [w for w in self.watch.enabled if w.condition.abbr == "OO"]
        muted = bool(asked) and all(w.is_muted(node) for w in asked)
        counts = self._table.is_watched(node) and birth not in self._aside
        return counts and not is_ignored(node) and not muted

    def _is_selected(self, watchpoint: Watchpoint, node: Node) -> bool:
        muted = watchpoint.is_muted(node) or is_ignored(node)
        return watchpoint.select.matches(node, node.gradient_of or node.parameter) and not muted

    def _at_end(self, record: StepRecord) -> Iterator[Hit]:
        """What is known only when a step has ended."""
        uses = self._values.take_uses()
        if not record.complete:
            return
        if uses is not None:
            numbers, rows = uses
            self._training.observe_parameters(record.step, numbers, rows)
            self._table.note_shapes(numbers, rows, self._kinds)
            self.ranks.note(record.step, numbers, self._table.parameters, rows)
        for watchpoint in self.watch.enabled:
            if watchpoint.condition.target == TRAINING:
                if record.skipped and watchpoint.condition.abbr in ("GA", "LS"):
                    continue
                yield from self._training.check(
                    watchpoint,
                    record.step,
                    record.losses,
                    record.calls,
                    self._soundness.records,
                )

    # ------------------------------------------------------------------ ranks and stopping

    def safe_point(self, step: int, before_update: bool) -> None:
        """Where training may be ended: raises if it is to be, on all ranks together."""
        if before_update and self.stopping is None:
            return
        if self.ranks.agreement.possible and self._must_agree():
            self._agree()
        if self.stopping is not None:
            self.ended = True
            end_training()

    def _must_agree(self) -> bool:
        compares = any(w.condition.abbr == "RD" for w in self.watch.enabled)
        return self._teller.reaction.on_hit == STOP or compares

    def _agree(self) -> None:
        decision = self.ranks.meet(self.stopping is not None)
        if decision.differing is not None:
            self._tell_difference(*decision.differing)
        if decision.stopping is not None and self.stopping is None:
            first = decision.stopping
            say(f"rank {first} has a hit and ends training: rank {self.rank} ends as well")
            self.ended = True
            end_training()

    def _tell_difference(self, step: int, parameters: Sequence[Digests]) -> None:
        for watchpoint in self.watch.enabled:
            if watchpoint.condition.abbr != "RD":
                continue
            hits = list(self._training.ranks_differ(watchpoint, step, parameters))
            if hits and self.rank == 0:
                self._teller.tell(hits, None, self._counts)
            elif hits and self.stopping is None and self._teller.reaction.stops_at("RD"):
                self._teller.stopping = hits[0]  # as rank 0 does, which tells of it


def _in_its_pass(hit: Hit, calls: Calls) -> Hit:
    """A hit that names the pass, where a step has several."""
    if hit.node is None or hit.call >= len(calls) or calls.pass_count == 1:
        return hit
    return replace(hit, pass_number=calls.pass_of(hit.call))


def _beyond(rows: Sequence[Rows], count: int) -> Records:
    """All records but the first so many."""
    parts = []
    for part in rows:
        if count < len(part.records):
            parts.append(part.records[count:])
        count = max(0, count - len(part.records))
    return joined(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _is_forward(node: Node) -> bool:
    """Whether a node is of the forward pass, without the scaling of a loss."""
    scales = any(frame.file.endswith("grad_scaler.py") for frame in node.stack.frames)
    return node.phase is Phase.FORWARD and not scales

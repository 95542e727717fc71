"""The sink that checks watchpoints while training runs, tells of hits and ends training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.analysis import verdict as verdicts
from opscope.analysis.soundness import Birth, Soundness
from opscope.events import (
    IO,
    TRAINING_GRAPH,
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
from opscope.messages import say, say_lines, say_once
from opscope.rows import Rows
from opscope.stats.record import ROW_DTYPE
from opscope.watch import callbacks
from opscope.watch.agreement import Agreement
from opscope.watch.catalogue import TRAINING, WEIGHT
from opscope.watch.compared import Compared
from opscope.watch.evaluate import Place, hits_of, io_of, outcome_of
from opscope.watch.history import digest, signature
from opscope.watch.hit_log import HitLog
from opscope.watch.hits import Hit
from opscope.watch.lasting import needed_steps
from opscope.watch.numbers import Numbers
from opscope.watch.reaction import Reaction, TrainingStopped
from opscope.watch.saving import HitState
from opscope.watch.selection import base_type
from opscope.watch.table import Table, is_ignored
from opscope.watch.training import TrainingWatch
from opscope.watch.watch_set import WatchSet
from opscope.watch.watchpoint import Watchpoint
from opscope.watch.witness import Witness

Records = NDArray[np.void]
_VERDICTS = 3
"""So many verdicts are printed in full; later ones are a line each."""
_LINES = 50
"""So many lines about hits are printed; all of them are in the run directory."""
_BIRTHS = 20


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
        self.reaction = reaction
        self.log = log
        self.on_change: Callable[[], None] = lambda: None
        """Called when other watchpoints than before are set."""
        self.is_replicated: Callable[[], bool] = lambda: False
        """Whether parameters are the same on every rank, as in DDP."""
        self.stopping: Hit | None = None
        """The hit that ends training, once there is one."""
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
        self._agreement = Agreement()
        self._step = 0
        """The step that is looked at, which on a GPU is not always the one under way."""
        self._under_way = 0
        self._pending: list[Rows] = []
        self._examined = 0
        self._parameters_seen: set[int] = set()
        self._parameter_rows: list[tuple[NDArray[np.int32], Records]] = []
        self._in_a_row: dict[tuple[int, int, int], int] = {}
        self._kinds: Sequence[tuple[str, tuple[int, ...]]] = ()
        self._revision = -1
        self._digests: dict[int, dict[str, str]] = {}
        self._verdicts = 0
        self._lines = 0
        self._told: set[tuple[int, int]] = set()
        self._skipped = 0
        self._has_verdict = False

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
        return Want.OUTPUT_STATS | Want.OUTSIDE_STATS | self._compared.wants(node)

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
        rows: Sequence[Rows],
        losses: Sequence[Loss],
        facts: Callable[[], Sequence[ParameterFact]],
    ) -> None:
        if self._training.wants_facts(self._under_way):
            self._training.observe_facts(self._under_way, facts())
        if rows:
            self._step = self._under_way
            self._examine([*self._pending, *rows], losses, whole=False)

    def stats(self, rows: Rows) -> None:
        self._pending.append(rows)

    def step_end(self, record: StepRecord) -> None:
        rows, self._pending = self._pending, []
        self._step = record.step
        self._table.renew(node for node, _ in record.changed)
        self._examine(rows, record.losses, whole=True, record=record)
        self.witness.end_step(birth.node for birth in self._soundness.births)
        self._soundness.begin()
        self._examined = 0
        self._parameters_seen.clear()
        self._has_verdict = False

    def close(self) -> None:
        self._agreement.leave()
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

    def _examine(
        self,
        rows: Sequence[Rows],
        losses: Sequence[Loss],
        whole: bool,
        record: StepRecord | None = None,
    ) -> None:
        """Check what has not been checked of the step."""
        if self.stopping is not None:
            return  # training ends: what comes after the hit is its consequence
        self._renew()
        if rows:
            self._kinds = rows[0].kinds
        records = _beyond(rows, self._examined)
        self._examined += len(records)
        self._table.learn(len(self._nodes))
        skipped = record is not None and record.skipped
        hits = [*self._overflows(records, losses, skipped), *self._values(records)]
        if whole and record is not None:
            hits += self._at_end(record)
        if hits:
            self._tell(hits, losses)

    def _overflows(self, records: Records, losses: Sequence[Loss], skipped: bool) -> Iterator[Hit]:
        """Hits of OO: where NaN and Inf began."""
        births = self._soundness.follow(records, self._nodes.__getitem__)
        births += self._soundness.release(loss.node for loss in losses)
        births = [b for b in births if self._table.is_watched(b.node)]
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
        for watchpoint in self.watch.enabled:
            if watchpoint.condition.abbr == "OO":
                for birth in births[:_BIRTHS]:
                    if self._is_selected(watchpoint, birth.node):
                        yield self._birth_hit(watchpoint, birth)

    def _counts(self, birth: Birth) -> bool:
        """Whether nobody asked to leave this operator alone."""
        node = birth.node
        asked = [w for w in self.watch.enabled if w.condition.abbr == "OO"]
        muted = bool(asked) and all(w.is_muted(node) for w in asked)
        return self._table.is_watched(node) and not is_ignored(node) and not muted

    def _is_selected(self, watchpoint: Watchpoint, node: Node) -> bool:
        muted = watchpoint.is_muted(node) or is_ignored(node)
        return watchpoint.select.matches(node, node.gradient_of or node.parameter) and not muted

    def _birth_hit(self, watchpoint: Watchpoint, birth: Birth) -> Hit:
        came = birth.entered
        message = f"{birth.node.op_type} turns sound inputs into {birth.bad.text}"
        if came is not None:
            message = f"{birth.bad.text} came in with the {came.kind} {came.name}".rstrip()
        return Hit(
            watchpoint,
            self._step,
            self.rank,
            message,
            birth.node,
            IO.OUTPUT if came is None else IO.INPUT,
            birth.slot,
            birth.call,
            came.name if came is not None and came.kind == "parameter" else "",
            nan=birth.bad.nan,
            posinf=birth.bad.posinf,
            neginf=birth.bad.neginf,
        )

    def _values(self, records: Records) -> Iterator[Hit]:
        """Hits on single values."""
        if not len(records):
            return
        bad = bool((records["nan"] | records["posinf"] | records["neginf"]).any())
        rows, numbers = self._first_uses(records)
        for watchpoint in self.watch.enabled:
            condition = watchpoint.condition
            if condition.target == TRAINING or condition.abbr == "OO":
                continue
            if condition.nonfinite and not bad:
                continue
            if condition.first_step_only and self._step != 0:
                continue
            if watchpoint.cls == WEIGHT:
                chosen = self._table.weights(watchpoint, numbers)
                yield from self._check(watchpoint, records, rows[chosen], numbers[chosen])
            else:
                yield from self._check(
                    watchpoint, records, self._table.outputs(watchpoint, records)
                )

    def _first_uses(self, records: Records) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """The rows of parameters that were not seen before in this step."""
        rows, numbers = self._table.parameter_rows(records)
        if self._parameters_seen and len(numbers):
            fresh = np.array([int(n) not in self._parameters_seen for n in numbers], bool)
            rows, numbers = rows[fresh], numbers[fresh]
        self._parameters_seen.update(numbers.tolist())
        if len(numbers):
            self._parameter_rows.append((numbers, records[rows]))
        return rows, numbers

    def _check(
        self,
        watchpoint: Watchpoint,
        records: Records,
        rows: NDArray[np.intp],
        numbers: NDArray[np.int32] | None = None,
    ) -> Iterator[Hit]:
        for group in self._groups(watchpoint, records, rows):
            chosen = records[group]
            names = [self._table.parameters[n] for n in numbers] if numbers is not None else ()
            more = self._compared.numbers(watchpoint, chosen, names)
            columns = Numbers.of_records(chosen, **more)
            node = self._nodes[int(chosen["node"][0])]
            outcome = outcome_of(watchpoint, columns, node)
            if not outcome.hits.any() and needed_steps(watchpoint) == 1:
                continue
            places = _Places(self, chosen, numbers)
            found = list(hits_of(watchpoint, outcome, chosen, places))
            yield from self._enough_in_a_row(watchpoint, chosen, found)

    def _groups(
        self, watchpoint: Watchpoint, records: Records, rows: NDArray[np.intp]
    ) -> Iterator[NDArray[np.intp]]:
        """Rows that one check applies to."""
        if not len(rows):
            return
        if watchpoint.condition.check is not None:
            yield rows
            return
        by_type: dict[str, list[int]] = {}
        for row in rows.tolist():
            by_type.setdefault(base_type(self._nodes[int(records["node"][row])]), []).append(row)
        for group in by_type.values():
            yield np.array(group, np.intp)

    def _enough_in_a_row(
        self, watchpoint: Watchpoint, records: Records, hits: list[Hit]
    ) -> Iterator[Hit]:
        """Of conditions that must hold for some steps, those that have."""
        needed = needed_steps(watchpoint)
        if needed <= 1:
            yield from hits
            return
        now = {(h.node.id, h.slot): h for h in hits if h.node is not None}
        for node, slot in zip(records["node"].tolist(), records["slot"].tolist(), strict=True):
            key = watchpoint.id, node, slot
            if (node, slot) not in now:
                self._in_a_row.pop(key, None)
                continue
            self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
            if self._in_a_row[key] >= needed:
                yield now[node, slot]

    def _at_end(self, record: StepRecord) -> Iterator[Hit]:
        """What is known only when a step has ended."""
        if not record.complete:
            return
        uses, self._parameter_rows = self._parameter_rows, []
        numbers = np.concatenate([n for n, _ in uses]) if uses else np.zeros(0, np.int32)
        if uses:
            rows = np.concatenate([r for _, r in uses])
            self._training.observe_parameters(record.step, numbers, rows)
            self._table.note_shapes(numbers, rows, self._kinds)
            self._note_digests(record.step, numbers, rows)
        order = record.orders.get(TRAINING_GRAPH, [])
        records = self._soundness.records() if self._examined else np.zeros(0, ROW_DTYPE)
        for watchpoint in self.watch.enabled:
            if watchpoint.condition.target == TRAINING:
                if record.skipped and watchpoint.condition.abbr in ("GA", "LS"):
                    continue
                yield from self._training.check(
                    watchpoint, record.step, record.losses, order, records, bool(record.changed)
                )

    # ------------------------------------------------------------------ telling

    def _tell(self, hits: list[Hit], losses: Sequence[Loss]) -> None:
        bad = [hit for hit in hits if hit.nonfinite]
        if bad and not self._has_verdict:
            self._has_verdict = True
            told = self._with_verdict(bad[0], losses)
            hits = [told if hit is bad[0] else hit for hit in hits]
        for hit in hits:
            self.log.add(hit)
            self._say(hit)
            callbacks.tell(hit)
            if self.stopping is None and self.reaction.stops_at(hit.watchpoint.condition.abbr):
                self.stopping = hit

    def _with_verdict(self, hit: Hit, losses: Sequence[Loss]) -> Hit:
        step = verdicts.Step(
            self._step,
            self.rank,
            self._soundness,
            self._nodes.__getitem__,
            self._kinds.__getitem__,
            [loss.node for loss in losses],
            self.log.earlier(self._step) if self._verdicts < _VERDICTS else None,
        )
        origin = verdicts.find_origin(step, hit.node, self._counts)
        if origin is None:
            return hit
        data = verdicts.verdict(step, origin)
        if self._state is not None:
            data["state"] = self._state.save(self._step, origin, data)
        self._verdicts += 1
        if data["entered"] and data["entered"]["kind"] == "rank":
            say(f"step {self._step}, rank {self.rank}: NaN or Inf came from another rank")
        elif self._verdicts <= _VERDICTS:
            say_lines(verdicts.text(data))
        return replace(hit, verdict=data)

    def _say(self, hit: Hit) -> None:
        if hit.verdict is not None and self._verdicts <= _VERDICTS:
            return
        key = hit.watchpoint.id, hit.node.id if hit.node is not None else -1
        if key in self._told and hit.node is not None:
            return
        self._told.add(key)
        if hit.nonfinite and self._has_verdict and hit.verdict is None:
            return  # the verdict says more
        self._lines += 1
        if self._lines == _LINES:
            say("more hits are not printed; opscope hits shows all")
        if self._lines < _LINES:
            place = f" ({verdicts.shown_place(hit.where)})" if hit.where else ""
            about = f" {_named(hit)}:" if hit.watchpoint.condition.target != TRAINING else ""
            say(f"step {hit.step}: {hit.watchpoint.label}:{about} {hit.message}{place}")

    # ------------------------------------------------------------------ ranks and stopping

    def safe_point(self, step: int, before_update: bool) -> None:
        """Where training may be ended: raises if it is to be, on all ranks together."""
        if before_update and self.stopping is None:
            return
        if self._agreement.possible and self._must_agree():
            self._agree(step)
        if self.stopping is not None:
            self.ended = True
            raise TrainingStopped

    def _must_agree(self) -> bool:
        compares = any(w.condition.abbr == "RD" for w in self.watch.enabled)
        return self.reaction.on_hit == "stop" or compares

    def _agree(self, step: int) -> None:
        own = {str(n): _together(d) for n, d in self._digests.items()}
        everyone = self._agreement.meet({"stop": self.stopping is not None, "digests": own})
        if len(everyone) < 2:
            return
        self._compare_ranks(everyone)
        ending = [rank for rank, message in enumerate(everyone) if message["stop"]]
        if ending and self.stopping is None:
            say(f"rank {ending[0]} has a hit and ends training: rank {self.rank} ends as well")
            self.ended = True
            raise TrainingStopped

    def _note_digests(self, step: int, numbers: NDArray[np.int32], rows: Records) -> None:
        if not self._agreement.possible or not self.is_replicated():
            return
        signatures = signature(rows)
        names = self._table.parameters
        self._digests[step] = {
            names[number]: digest(signatures[index])
            for index, number in enumerate(numbers.tolist())
        }

    def _compare_ranks(self, everyone: Sequence[dict[str, Any]]) -> None:
        common = set.intersection(*(set(message["digests"]) for message in everyone))
        differing = [
            step for step in common if len({message["digests"][step] for message in everyone}) > 1
        ]
        if differing:
            first = min(differing, key=int)
            details = self._agreement.meet({"parameters": self._digests.get(int(first), {})})
            if len(details) == len(everyone):
                self._tell_difference(int(first), [d["parameters"] for d in details])
        for step in common:
            self._digests.pop(int(step), None)

    def _tell_difference(self, step: int, parameters: Sequence[dict[str, str]]) -> None:
        for watchpoint in self.watch.enabled:
            if watchpoint.condition.abbr != "RD":
                continue
            hits = list(self._training.ranks_differ(watchpoint, step, parameters))
            if hits and self.rank == 0:
                self._tell(hits, ())
            elif hits and self.stopping is None and self.reaction.stops_at("RD"):
                self.stopping = hits[0]  # as rank 0 does, which tells of it


def _named(hit: Hit) -> str:
    """What a hit is about: a parameter, if it is one, or a value of a node."""
    return hit.parameter if hit.io is IO.INPUT and hit.parameter else hit.about


def _beyond(rows: Sequence[Rows], count: int) -> Records:
    """All records but the first so many."""
    parts = []
    for part in rows:
        if count < len(part.records):
            parts.append(part.records[count:])
        count = max(0, count - len(part.records))
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, ROW_DTYPE)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _is_forward(node: Node) -> bool:
    """Whether a node is of the forward pass, without the scaling of a loss."""
    scales = any(frame.file.endswith("grad_scaler.py") for frame in node.stack.frames)
    return node.phase is Phase.FORWARD and not scales


def _together(digests: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]


class _Places(Mapping[int, Place]):
    """Where the rows of a check are, made only for those that hit."""

    def __init__(
        self, sink: WatchSink, records: Records, numbers: NDArray[np.int32] | None
    ) -> None:
        self._sink = sink
        self._records = records
        self._numbers = numbers

    def __getitem__(self, index: int) -> Place:
        record = self._records[index]
        node = self._sink._nodes[int(record["node"])]
        parameter = ""
        if self._numbers is not None:
            parameter = self._sink._table.parameters[int(self._numbers[index])]
        return Place(
            int(record["step"]),
            self._sink.rank,
            node,
            io_of(record),
            int(record["slot"]),
            int(record["call"]),
            parameter,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._records)))

    def __len__(self) -> int:
        return len(self._records)

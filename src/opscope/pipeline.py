"""Between capture and the sinks: asks each sink what it wants, computes statistics, delivers.

Capture calls in; sinks are called out to. A sink that fails is told about once and dropped, so
that a bug in a sink never costs the user a training run.
"""

from __future__ import annotations

import traceback
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.errors import OpscopeError
from opscope.events import (
    BaseSink,
    Call,
    GroupFact,
    LossRecord,
    Node,
    Outside,
    ParameterFact,
    PassingValue,
    Sink,
    Source,
    StepRecord,
    Want,
)
from opscope.interruptions import is_of_script
from opscope.messages import say, say_once
from opscope.meter import Late, Meter, Span
from opscope.names import forward_scope
from opscope.rows import Rows
from opscope.stats.engine import Engine
from opscope.stats.glance import Glance
from opscope.stats.memory import PlainMemory, RowMemory
from opscope.stats.record import INPUT, OUTPUT, VALID

Records = NDArray[np.void]


class Plan:
    """The wishes of the active sinks for some nodes; valid while `revision` is the pipeline's."""

    __slots__ = ("flags", "revision", "sinks")

    def __init__(self, revision: int, sinks: tuple[tuple[Sink, int], ...]) -> None:
        self.revision = revision
        self.sinks = sinks
        self.flags = 0  # a plain int: cheaper to test per operator
        for _, want in sinks:
            self.flags |= want


_EARLY_LIMIT = 100_000
"""The number of rows of the setup kept until the rank is known and the sinks can be opened."""
_STEPS_UNDER_WAY = 1
"""The number of steps that may have ended without their rows being ready."""
# Plain ints: testing an enum's flag makes an enum, per operator.
_INPUT_STATS, _OUTPUT_STATS = int(Want.INPUT_STATS), int(Want.OUTPUT_STATS)
_INPUT_VALUES, _OUTPUT_VALUES = int(Want.INPUT_VALUES), int(Want.OUTPUT_VALUES)
_OUTSIDE_STATS, _PARAMETERS = int(Want.OUTSIDE_STATS), int(Want.PARAMETERS)
_ANY_INPUT_STATS = _INPUT_STATS | _OUTSIDE_STATS
_INPUTS = _ANY_INPUT_STATS | _INPUT_VALUES | _PARAMETERS
_OUTPUTS = _OUTPUT_STATS | _OUTPUT_VALUES


class Audience:
    """Sinks that listen, and of each callback those of them that do something about it."""

    __slots__ = ("_callbacks", "sinks")

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks = tuple(sinks)
        self._callbacks: dict[str, tuple[tuple[Sink, Callable[..., None]], ...]] = {}

    def to_call(self, callback: str) -> tuple[tuple[Sink, Callable[..., None]], ...]:
        """The sinks that do not ignore a callback, each with its own."""
        found = self._callbacks.get(callback)
        if found is None:
            ignored = getattr(BaseSink, callback)
            every = [(sink, _callback(sink, callback)) for sink in self.sinks]
            chosen = (each for each in every if getattr(each[1], "__func__", None) is not ignored)
            found = self._callbacks[callback] = tuple(chosen)
        return found


def _callback(sink: Sink, name: str) -> Callable[..., None]:
    """A callback of a sink; one that cannot be had raises where it is called."""
    try:
        found: Callable[..., None] = getattr(sink, name)
    except Exception:  # noqa: BLE001 - whoever calls it sees to that
        return lambda *args: getattr(sink, name)(*args)
    return found


class _Ended(NamedTuple):
    """A step that ended, whose rows may be late."""

    spans: list[Span]
    moments: array[int]
    late: Late | None
    audience: Audience
    record: Callable[[], StepRecord]


class _SoFar:
    """The step under way, looked at when a sink asks."""

    __slots__ = ("_losses", "_pipeline", "calls")

    def __init__(
        self,
        pipeline: Pipeline,
        calls: Callable[[], Calls],
        losses: Callable[[], Sequence[LossRecord]],
    ) -> None:
        self._pipeline = pipeline
        self._losses = losses
        self.calls = calls

    @property
    def _is_late(self) -> bool:
        return self._pipeline.meter.engine.has_device and not self._pipeline.strict

    @property
    def may_be_bad(self) -> bool:
        return self._pipeline.meter.may_be_bad and not self._is_late

    def rows(self) -> Sequence[Rows]:
        return () if self._is_late else self._pipeline.rows_so_far()

    def losses(self) -> Sequence[LossRecord]:
        return () if self._is_late else self._losses()


class Pipeline:
    """Delivers the events of one rank to its sinks."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        engine: Engine,
        accepts_step: Callable[[int], bool] = lambda step: True,
        scope: str | None = None,
    ) -> None:
        self._all = Audience(sinks)
        self.meter = Meter(engine, self._add_kind)
        self._accepts_step = accepts_step
        self._scope = scope
        self._active = Audience(())
        self._parameters_seen: set[str] = set()
        self._plans: dict[tuple[tuple[Sink, int], ...], Plan] = {}
        self._opened = False
        self._nodes: list[Node] = []
        self._ended: deque[_Ended] = deque()
        self._hands_out_values = False
        self._step = 0
        self.wiring = 0
        """Counts the steps in which sources of nodes have changed."""
        self.revision = 0
        self.strict = False
        """True to wait for the rows of devices before an optimizer steps."""
        self.on_revision: Callable[[], None] = lambda: None
        """Called when plans made so far have become void."""
        self.on_drop: Callable[[Sink, Exception], None] = lambda sink, error: None
        """Told of a sink that failed and is called no more."""

    def open(self, rank: int) -> None:
        """Open the sinks, now that the rank is known, and tell them of what was seen so far."""
        if self._opened:
            return
        self._opened = True
        self._each(self._all, "open", rank)
        self._renew_plans()
        for node in self._nodes:
            self._each(self._all, "node", node)
        for number, kind in enumerate(self.meter.kinds.by_number):
            self._each(self._all, "kind", number, *kind)
        self._each(self._active, "step_begin", self._step)
        self._deliver_early()
        for sink in self._all.sinks:
            memory = sink.row_memory()
            if memory is not None:
                self.meter.use(memory)
                break

    def _deliver_early(self) -> None:
        """Deliver rows of the setup, which ran before the sinks could be opened."""
        spans, moments, late = self.meter.end_step()
        if late is not None:
            late.ticket.wait()
            late.deliver()
        self._deliver_rows(self._active, spans, moments)

    @property
    def opened(self) -> bool:
        """True if the sinks have been opened."""
        return self._opened

    @property
    def takes_rows(self) -> bool:
        """False if the setup has more rows than are kept until the sinks can be opened."""
        if self._opened or self.meter.held < _EARLY_LIMIT:
            return True
        say_once(f"the setup has more than {_EARLY_LIMIT} rows: the rest of it is not recorded")
        return False

    def begin_step(self, step: int) -> bool:
        """Find out who listens in this step; plans made for other listeners become void.

        Returns whether anybody does; if not, all stays as it is.
        """
        active: tuple[Sink, ...] = ()
        if self._accepts_step(step):
            active = tuple([sink for sink in self._all.sinks if sink.wants_step(step)])
        if not active:
            return False
        if active != self._active.sinks:
            self._active = Audience(active)
            self._renew_plans()
        self._step = step
        if self._opened:
            self._each(self._active, "step_begin", step)
        return True

    def reconsider(self, step: int) -> bool:
        """Ask anew who listens in the step under way and to what; returns whether anybody does."""
        accepted = self._accepts_step(step)
        active = Audience(sink for sink in self._all.sinks if accepted and sink.wants_step(step))
        before = self._active.sinks
        new = Audience(sink for sink in active.sinks if sink not in before or step != self._step)
        self._active, self._step = active, step
        self._renew_plans()
        if self._opened:
            self._each(new, "step_begin", step)
        return bool(active.sinks)

    def forget_plans(self) -> None:
        """Ask the sinks anew what they want."""
        self._renew_plans()

    def _renew_plans(self) -> None:
        self.revision += 1
        self.on_revision()

    def add_node(self, node: Node) -> None:
        """Tell the sinks of a new call site."""
        self._nodes.append(node)
        if self._opened:
            self._each(self._all, "node", node)

    def plan_for(self, node: Node) -> Plan:
        """Return what the active sinks want of `node`."""
        wants: list[tuple[Sink, int]] = []
        if self._scope is None or fnmatchcase(forward_scope(node.scope), self._scope):
            for sink in self._active.sinks:
                want = self._ask(sink, node)
                if want:
                    wants.append((sink, int(want)))
        key = tuple(wants)
        plan = self._plans.get(key)
        if plan is None or plan.revision != self.revision:
            plan = self._plans[key] = Plan(self.revision, key)
        node.plan = plan
        return plan

    def inputs(self, plan: Plan, call: Call, values: Sequence[PassingValue]) -> None:
        """Deliver the inputs of a call that is about to run."""
        flags = plan.flags
        if not self.takes_rows:
            return
        if flags & (_INPUTS | _OUTPUTS):
            self.meter.moments.extend((call.index, call.stream, call.time_us))
        if not flags & _INPUTS:
            return
        if flags & _PARAMETERS:
            self._hands_out_values = True
            self._deliver_parameters(plan, call, values)
        if flags & _INPUT_VALUES:
            self._hands_out_values = True
            self._deliver(plan, _INPUT_VALUES, "inputs", call, values)
        if flags & _ANY_INPUT_STATS:
            measure, node = self.meter.measure, call.node.id
            everything = flags & _INPUT_STATS
            for slot, tensor, source in values:
                if everything or (isinstance(source, Outside) and source.kind != "state"):
                    measure(call.step, node, call.index, INPUT, slot, tensor, source)

    def outputs(
        self,
        plan: Plan,
        call: Call,
        values: Sequence[PassingValue],
        viewed: tuple[Any, Source] | None = None,
    ) -> None:
        """Deliver the outputs of a call that ran; see `Meter.measure` for `viewed`."""
        flags = plan.flags
        if not flags & _OUTPUTS or not self.takes_rows:
            return
        if flags & _OUTPUT_VALUES:
            self._hands_out_values = True
            self._deliver(plan, _OUTPUT_VALUES, "outputs", call, values)
        if flags & _OUTPUT_STATS:
            measure, node, outputs = self.meter.measure, call.node.id, call.node.outputs
            for slot, tensor, _ in values:
                measure(call.step, node, call.index, OUTPUT, slot, tensor, outputs[slot], viewed)

    def before_update(
        self,
        calls: Callable[[], Calls],
        losses: Callable[[], Sequence[LossRecord]],
        facts: Callable[[], Sequence[ParameterFact]],
        groups: Callable[[], Sequence[GroupFact]],
    ) -> None:
        """Let sinks look at what has happened so far, before an optimizer steps."""
        if not self._opened:
            return
        if self.strict:
            self.meter.settle()
        so_far = _SoFar(self, calls, losses)
        self._each(self._active, "before_update", so_far, facts, groups)

    def rows_so_far(self) -> list[Rows]:
        """The rows of the step under way."""
        return [self._rows(*span, array("q")) for span in self.meter.so_far()]

    def end_step(self, record: Callable[[], StepRecord]) -> None:
        """Deliver a step that ended when its rows are ready; only then call `record`."""
        spans, moments, late = self.meter.end_step()
        self._ended.append(_Ended(spans, moments, late, self._active, record))
        self._parameters_seen.clear()
        at_once = self._hands_out_values or self.strict
        self._hands_out_values = False
        self._deliver_ended(0 if at_once else _STEPS_UNDER_WAY)

    def close(self) -> None:
        """Deliver what is still under way and close every sink that was opened."""
        self._deliver_ended(0)
        if self._opened:
            self.meter.use(PlainMemory())
            self._each(self._all, "close")

    def _deliver_ended(self, under_way: int) -> None:
        """Deliver the steps whose rows are ready; wait until at most so many are left."""
        while self._ended:
            spans, moments, late, audience, record = self._ended[0]
            if late is not None and not _arrived(late, wait=len(self._ended) > under_way):
                return
            self._ended.popleft()
            self._deliver_rows(audience, spans, moments)
            self._each(audience, "step_end", record())

    def _deliver_rows(self, audience: Audience, spans: Sequence[Span], moments: array[int]) -> None:
        for records, memory in spans:
            self._each(audience, "stats", self._rows(records, memory, moments))

    def _rows(self, records: Records, memory: RowMemory, moments: array[int]) -> Rows:
        found: Glance | None = self.meter.glance(records)
        if found is not None and found.valid < len(records):
            # One could not be read; nobody shall take it for zeros.
            records, found = records[records["valid"] == VALID], None
        kinds = self.meter.kinds.by_number
        look = self.meter.glance
        return Rows(records, memory, self._nodes, kinds, moments, self.wiring, found, look)

    def _add_kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        if self._opened:
            self._each(self._all, "kind", number, dtype, shape)

    def _deliver_parameters(self, plan: Plan, call: Call, values: Sequence[PassingValue]) -> None:
        for value in values:
            source = value.source
            if not isinstance(source, Outside) or source.kind not in ("parameter", "buffer"):
                continue
            if source.name in self._parameters_seen:
                continue
            self._parameters_seen.add(source.name)
            for sink, want in plan.sinks:
                if want & _PARAMETERS:
                    self._call(sink, "parameter", call, source, value.tensor)

    def _deliver(
        self, plan: Plan, flag: int, callback: str, call: Call, values: Sequence[PassingValue]
    ) -> None:
        for sink, want in plan.sinks:
            if want & flag:
                self._call(sink, callback, call, values)

    def _each(self, audience: Audience, callback: str, *args: Any) -> None:
        for sink, call in audience.to_call(callback):
            try:
                call(*args)
            except Exception as error:  # noqa: BLE001 - a bug in a sink must not end training
                self._drop(sink, callback, error)

    def _call(self, sink: Sink, callback: str, *args: Any) -> None:
        try:
            getattr(sink, callback)(*args)
        except Exception as error:  # noqa: BLE001 - a bug in a sink must not end training
            self._drop(sink, callback, error)

    def _ask(self, sink: Sink, node: Node) -> Want:
        try:
            return sink.wants(node)
        except Exception as error:  # noqa: BLE001 - a bug in a sink must not end training
            self._drop(sink, "wants", error)
            return Want.NOTHING

    def _drop(self, sink: Sink, callback: str, error: Exception) -> None:
        if is_of_script(error):
            raise error
        if sink not in self._all.sinks:
            return
        self._all = Audience(other for other in self._all.sinks if other is not sink)
        self._active = Audience(other for other in self._active.sinks if other is not sink)
        self._renew_plans()
        self.on_drop(sink, error)
        if isinstance(error, OpscopeError):
            say(f"{error}; {type(sink).__name__} is switched off, training goes on")
            return
        where = traceback.extract_tb(error.__traceback__)[-1]
        say(
            f"internal error in {type(sink).__name__}.{callback}: {type(error).__name__}: {error} "
            f"({where.filename}:{where.lineno}); it is switched off, training goes on"
        )


def _arrived(late: Late, wait: bool) -> bool:
    """Tell whether late rows are there now; what a failed device still owes never will be."""
    try:
        if wait:
            late.ticket.wait()
        elif not late.ticket.ready():
            return False
        late.deliver()
    except Exception as error:  # noqa: BLE001 - the sinks are still to be told, and closed
        first = str(error).strip().partition("\n")[0]
        say_once(f"the device has failed ({first}): nothing can be read from it any more", "device")
    return True

"""Between capture and the sinks: asks each sink what it wants, computes statistics, delivers.

Capture calls in; sinks are called out to. A sink that fails is told about once and dropped, so
that a bug in a sink never costs the user a training run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from opscope.errors import OpscopeError
from opscope.events import (
    IO,
    Call,
    Node,
    Output,
    Outside,
    Sink,
    StepRecord,
    Value,
    ValueStats,
    Want,
)
from opscope.messages import say, say_once
from opscope.stats.engine import Pending, StatsEngine
from opscope.stats.torch_values import dtype_name, shape_of, unsupported_reason


class Plan:
    """What the active sinks want of some nodes; valid while `revision` is the pipeline's."""

    __slots__ = ("flags", "revision", "sinks")

    def __init__(self, revision: int, sinks: tuple[tuple[Sink, int], ...]) -> None:
        self.revision = revision
        self.sinks = sinks
        self.flags = 0  # a plain int: cheaper to test per operator
        for _, want in sinks:
            self.flags |= want


_EARLY_LIMIT = 100_000
"""How many rows of the setup are kept until the rank is known and the sinks can be opened."""
# Plain ints: testing an enum's flag makes an enum, per operator.
_INPUT_STATS, _OUTPUT_STATS = int(Want.INPUT_STATS), int(Want.OUTPUT_STATS)
_INPUT_VALUES, _OUTPUT_VALUES = int(Want.INPUT_VALUES), int(Want.OUTPUT_VALUES)
_OUTSIDE_STATS, _PARAMETERS = int(Want.OUTSIDE_STATS), int(Want.PARAMETERS)
_INPUTS = _INPUT_STATS | _INPUT_VALUES | _OUTSIDE_STATS | _PARAMETERS
_OUTPUTS = _OUTPUT_STATS | _OUTPUT_VALUES


class Pipeline:
    """Delivers the events of one rank to its sinks."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        engine: StatsEngine,
        accepts_step: Callable[[int], bool] = lambda step: True,
        scope: str | None = None,
    ) -> None:
        self._sinks = list(sinks)
        self._engine = engine
        self._accepts_step = accepts_step
        self._scope = scope
        self._active: tuple[Sink, ...] = ()
        self._rows: dict[Output, tuple[tuple[Any, ...], Pending]] = {}
        self._waiting: list[tuple[Plan, Call, IO, int, str, tuple[int, ...], Pending]] = []
        self._parameters_seen: set[str] = set()
        self._plans: dict[tuple[tuple[Sink, int], ...], Plan] = {}
        self._opened = False
        self._backlog: list[Node] = []
        self._early: list[tuple[Plan, list[ValueStats]]] = []
        self._step = 0
        self.revision = 0

    def open(self, rank: int) -> None:
        """Open the sinks, now that the rank is known, and tell them of the nodes seen so far."""
        if self._opened:
            return
        self._opened = True
        self._each(self._sinks, "open", rank)
        self.revision += 1
        for node in self._backlog:
            self._each(self._sinks, "node", node)
        self._backlog.clear()
        self._each(self._active, "step_begin", self._step)
        early, self._early = self._early, []
        for plan, rows in early:
            self._deliver_rows(plan, rows)

    @property
    def opened(self) -> bool:
        """Whether the sinks have been opened."""
        return self._opened

    def wants_step(self, step: int) -> bool:
        """Whether any sink wants anything of this step."""
        return self._accepts_step(step) and any(sink.wants_step(step) for sink in self._sinks)

    def begin_step(self, step: int) -> None:
        """Find out who listens in this step; plans made for other listeners become void."""
        active = tuple(sink for sink in self._sinks if sink.wants_step(step))
        if active != self._active:
            self._active = active
            self.revision += 1
        self._step = step
        if self._opened:
            self._each(active, "step_begin", step)

    def forget_plans(self) -> None:
        """Ask the sinks anew what they want."""
        self.revision += 1

    def add_node(self, node: Node) -> None:
        """A new call site."""
        if self._opened:
            self._each(self._sinks, "node", node)
        else:
            self._backlog.append(node)

    def plan_for(self, node: Node) -> Plan:
        """What the active sinks want of `node`."""
        wants: list[tuple[Sink, int]] = []
        if self._scope is None or fnmatchcase(node.scope.removeprefix("Gradients/"), self._scope):
            for sink in self._active:
                want = self._ask(sink, node)
                if want:
                    wants.append((sink, int(want)))
        key = tuple(wants)
        plan = self._plans.get(key)
        if plan is None or plan.revision != self.revision:
            plan = self._plans[key] = Plan(self.revision, key)
        node.plan = plan
        return plan

    def inputs(self, plan: Plan, call: Call, values: Sequence[Value]) -> None:
        """Deliver the inputs of a call that is about to run."""
        flags = plan.flags
        if not flags & _INPUTS:
            return
        if flags & _PARAMETERS:
            self._deliver_parameters(plan, call, values)
        if flags & _INPUT_VALUES:
            self._deliver(plan, _INPUT_VALUES, "inputs", call, values)
        if flags & _INPUT_STATS:
            self._measure(plan, call, IO.INPUT, values)
        elif flags & _OUTSIDE_STATS:
            outside = [v for v in values if isinstance(v.source, Outside)]
            if outside:
                self._measure(plan, call, IO.INPUT, outside)

    def outputs(self, plan: Plan, call: Call, values: Sequence[Value]) -> None:
        """Deliver the outputs of a call that ran."""
        flags = plan.flags
        if not flags & _OUTPUTS:
            return
        if flags & _OUTPUT_VALUES:
            self._deliver(plan, _OUTPUT_VALUES, "outputs", call, values)
        if flags & _OUTPUT_STATS:
            self._measure(plan, call, IO.OUTPUT, values)

    def end_step(self, record: StepRecord) -> None:
        """Deliver the rows still under way, then the step."""
        self._engine.flush()
        waiting, self._waiting = self._waiting, []
        for plan, call, io, slot, dtype, shape, pending in waiting:
            self._deliver_rows(plan, [ValueStats(call, io, slot, dtype, shape, pending.row)])
        self._rows.clear()
        self._parameters_seen.clear()
        self._each(self._active, "step_end", record)

    def close(self) -> None:
        """Close every sink that was opened."""
        if self._opened:
            self._each(self._sinks, "close")

    def _measure(self, plan: Plan, call: Call, io: IO, values: Sequence[Value]) -> None:
        ready: list[ValueStats] = []
        for value in values:
            tensor = value.tensor
            if reason := unsupported_reason(tensor):
                say_once(f"no statistics for {reason}")
                continue
            shape = shape_of(tensor)
            pending = self._row(call, io, value, shape)
            dtype = dtype_name(tensor)
            if pending.ready:
                ready.append(ValueStats(call, io, value.slot, dtype, shape, pending.row))
            else:
                self._waiting.append((plan, call, io, value.slot, dtype, shape, pending))
        if ready:
            self._deliver_rows(plan, ready)

    def _row(self, call: Call, io: IO, value: Value, shape: tuple[int, ...]) -> Pending:
        """The row of a value; an input that is an output unchanged has that output's row."""
        tensor = value.tensor
        source = call.node.outputs[value.slot] if io is IO.OUTPUT else value.source
        if not isinstance(source, Output):
            return self._engine.submit(tensor)
        identity = (tensor.data_ptr(), shape, tensor.stride(), tensor.dtype)
        known = self._rows.get(source)
        if known is not None and known[0] == identity and io is IO.INPUT:
            return known[1]
        pending = self._engine.submit(tensor)
        if io is IO.OUTPUT:
            self._rows[source] = (identity, pending)
        return pending

    def _deliver_rows(self, plan: Plan, rows: list[ValueStats]) -> None:
        if not self._opened:
            if len(self._early) < _EARLY_LIMIT:
                self._early.append((plan, rows))
            return
        flag = _OUTPUT_STATS
        if rows[0].io is IO.INPUT:
            flag = _INPUT_STATS | _OUTSIDE_STATS
        for sink, want in plan.sinks:
            if want & flag:
                self._call(sink, "stats", rows)

    def _deliver_parameters(self, plan: Plan, call: Call, values: Sequence[Value]) -> None:
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
        self, plan: Plan, flag: int, callback: str, call: Call, values: Sequence[Value]
    ) -> None:
        for sink, want in plan.sinks:
            if want & flag:
                self._call(sink, callback, call, values)

    def _each(self, sinks: Sequence[Sink], callback: str, *args: Any) -> None:
        for sink in tuple(sinks):
            self._call(sink, callback, *args)

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
        if sink not in self._sinks:
            return
        self._sinks.remove(sink)
        self._active = tuple(other for other in self._active if other is not sink)
        self.revision += 1
        if isinstance(error, OpscopeError):
            say(f"{error}; {type(sink).__name__} is switched off, training goes on")
            return
        where = traceback.extract_tb(error.__traceback__)[-1]
        say(
            f"internal error in {type(sink).__name__}.{callback}: {type(error).__name__}: {error} "
            f"({where.filename}:{where.lineno}); it is switched off, training goes on"
        )

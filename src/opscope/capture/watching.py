"""What capture does about an operator: finds its node, its inputs and outputs, and tells of them.

`OperatorWatch.begin` is called before an operator runs and `finish` after it, by the native
observer for call sites it does not know yet, and for every operator by the fallback without
native code. native/hook/watching.h does the same for known call sites.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward

from opscope.calls import Calls, note_sources
from opscope.capture.guards import quiet
from opscope.capture.known import KnownTensors
from opscope.capture.operators import Operator
from opscope.capture.parameters import Names
from opscope.capture.passes import Passes
from opscope.capture.stacks import Stacks, find_user_frame, is_recompute
from opscope.capture.thread_state import (
    BACKWARD,
    DATA,
    EVAL,
    FORWARD,
    LOOSE_TAIL,
    MOST_NODES,
    OPTIMIZER,
    PHASES,
    SETUP,
    TAIL,
    Marks,
    Site,
    ThreadState,
)
from opscope.capture.threads import Threads
from opscope.events import (
    DATA_GRAPH,
    EVAL_GRAPH,
    SETUP_GRAPH,
    TRAINING_GRAPH,
    Call,
    Node,
    Output,
    Outside,
    Phase,
    Source,
    Stack,
    Value,
    Want,
)
from opscope.messages import say_once
from opscope.names import GRADIENTS, RECOMPUTE, ROOT, node_name
from opscope.native import shared
from opscope.pipeline import Pipeline, Plan
from opscope.stats.record import INPUT, OUTPUT

if TYPE_CHECKING:
    from opscope.capture.hook import Hook

_grad_enabled = torch.is_grad_enabled
ENGINE = _engine_run_backward.__code__
"""Whose frame is the innermost while autograd runs a backward pass in the calling thread."""
_MAKE_GRADS = torch.autograd._make_grads.__code__
_ACCUMULATING = {
    *("detach", "clone", "copy_", "add", "add_"),
    "_sparse_coo_tensor_with_dims_and_tensors",
}
"""What autograd does to make an incoming gradient a parameter's `.grad`."""
_ACCUMULATE = 2**64 - 1
"""The sequence number of every AccumulateGrad node."""
_AFTER_FORWARD = (Phase.BACKWARD, Phase.OPTIMIZER)
_GRAPHS = {EVAL: EVAL_GRAPH, SETUP: SETUP_GRAPH, DATA: DATA_GRAPH}
_FREE = contextlib.nullcontext()
_function_modes = torch._C._len_torch_function_stack
# Plain ints: testing an enum's flag makes an enum, per operator.
_INPUT_STATS, _OUTPUT_STATS = int(Want.INPUT_STATS), int(Want.OUTPUT_STATS)
_OUTSIDE_STATS, _ARGUMENTS = int(Want.OUTSIDE_STATS), int(Want.ARGUMENTS)
_VALUES = int(Want.INPUT_VALUES | Want.OUTPUT_VALUES | Want.PARAMETERS)
UNKNOWN = Outside("outside", "")
MANY = shared.MANY_OUTPUTS
"""So many outputs are read together: those of foreach and fused operators."""
Alarm = Callable[[Node, int, bool, list[Tensor], "list[Tensor | None]"], None]
"""A node, the index of its call, whether there is a NaN (or may be), inputs and outputs."""
GradNode = tuple[int, str, Tensor | None]
"""The number and the name of an autograd node, and the tensor to whose gradient it adds, if any."""
Texts = Callable[[], dict[str, str]]
"""The arguments of the call under way that are no tensors, as text."""
Subject = Node | Outside | str | tuple[str, ...] | None
"""What an operator is about: a forward node, a parameter, or the names of several."""


class Begun:
    """A call that is under way."""

    __slots__ = (
        "call",
        "flags",
        "index",
        "node",
        "operator",
        "pass_number",
        "plan",
        "sources",
        "tensors",
        "written",
    )

    def __init__(
        self,
        operator: Operator,
        node: Node,
        index: int,
        pass_number: int,
        plan: Plan,
        tensors: list[Tensor],
        sources: list[Source],
        written: list[Tensor],
    ) -> None:
        self.operator = operator
        self.node = node
        self.index = index
        self.pass_number = pass_number
        self.plan = plan
        self.tensors = tensors
        self.sources = sources
        self.written = written
        self.flags = plan.flags
        self.call: Call | None = None


class OperatorWatch:
    """Sees to every operator of a process, whoever tells of them."""

    def __init__(
        self,
        pipeline: Pipeline,
        threads: Threads,
        names: Names,
        key: Callable[[Any], int],
        known: KnownTensors,
    ) -> None:
        self.key = key
        """What a tensor is known by."""
        self.hook: Hook | None = None
        self.pipeline = pipeline
        self.threads = threads
        self._local = threads.local
        self.names = names
        self.stacks = Stacks()
        self.nodes: list[Node] = []
        self.recording = False
        self.step = 0
        self.setup_done = False
        self.on_setup_end: Callable[[], None] = lambda: None
        self.on_forward: Callable[[], None] = lambda: None
        """Called when forward goes on after an update by hand, without any module."""
        self.on_arrival: Callable[[Tensor, Outside], None] | None = None
        self.calls = Calls()
        """Of the step under way."""
        self._last_calls = Calls()
        self.passes = Passes()
        self.known = known
        self._arrivals: dict[int, tuple[Tensor, Outside]] = {}
        self._op_counts: dict[tuple[int, str, str], itertools.count[int]] = {}
        self._lines: dict[tuple[object, ...], list[Node]] = {}
        self._first_use: dict[str, Node] = {}
        self.sites: dict[tuple[object, ...], Site] = {}
        self.marks = Marks()
        self._lock = threading.RLock()
        self.late: dict[int, list[tuple[Plan, Call, Value]]] = {}
        self.current_grad_node: Callable[[], GradNode | None] = lambda: None
        """The autograd node under way in the calling thread."""
        pipeline.meter.made_in = lambda tensor: known.call_of(key(tensor))
        self.alarm: Alarm | None = None
        """Told of outputs with NaN or Inf while the tensors are at hand, on the CPU."""

    # ------------------------------------------------------------------ a call

    def begin(
        self,
        operator: Operator,
        tensors: list[Tensor],
        sources: list[Source],
        written: list[Tensor],
        frame: FrameType | None,
        texts: Texts,
    ) -> Begun:
        """An operator is about to run.

        `tensors` are its inputs, `sources` where they come from, `written` those it writes to and
        `frame` is where it was called.
        """
        state = self._local.state
        if not state.admitted:
            self.threads.admit(state)
        phase, subject, key, user, (serial, number) = self._call_site(
            operator, state, frame, tensors, sources
        )
        with self._lock if self.threads.many else _FREE:
            site = self.sites.get(key)
            node = self._node_at(site, serial)
            if node is None:
                node = self._new_node(operator, state, phase, subject, frame, sources, texts)
                if site is None:
                    self.sites[key] = Site(frame, user, node, self.marks.add(serial))
                else:
                    site.add(node)
                    self.marks.numbers[site.at + 1] += 1
            index = self._add_call(node, number)
            if sources != node.sources:
                note_sources(self.calls, index, node, sources)
        if self.late and not operator.asynchronous:
            self._deliver_late(tensors[1:] if operator.completes else tensors)
        plan = node.plan
        if plan is None or plan.revision != self.pipeline.revision:
            plan = self.pipeline.plan_for(node)
        begun = Begun(operator, node, index, number, plan, tensors, sources, written)
        flags = plan.flags
        if flags & _ARGUMENTS:
            node.arguments = texts()
        if flags & _VALUES or (flags and (operator.asynchronous or self.late)):
            begun.call = self.begin_call(plan, node, index, tensors, number, sources)
            begun.flags = 0
        elif flags and self.pipeline.takes_rows:
            self._measure_inputs(flags, node, index, tensors, sources)
        else:
            begun.flags = 0
        if operator.asynchronous or operator.waits:
            self.pipeline.meter.before_write(tensors)  # schemas of collectives do not say so
        elif written:
            self.pipeline.meter.before_write(written)
        return begun

    def finish(self, begun: Begun, produced: list[Tensor | None]) -> None:
        """It has run, with these outputs by slot."""
        operator, node, tensors = begun.operator, begun.node, begun.tensors
        if node.raised:
            node.raised = False
        if len(node.outputs) < len(produced):
            self.add_outputs(operator, node, produced, tensors)
        elif operator.view:
            self._renew_views(node)
        if self.late and operator.completes:
            self._deliver_late(tensors)
        if begun.call is not None:
            self.end_call(begun.plan, begun.call, operator, produced, tensors, begun.sources)
        elif begun.flags & _OUTPUT_STATS:
            self._measure_outputs(operator, node, begun.index, produced, tensors, begun.sources)

    def _call_site(
        self,
        operator: Operator,
        state: ThreadState,
        frame: FrameType | None,
        tensors: list[Tensor],
        sources: list[Source],
    ) -> tuple[int, Subject, tuple[object, ...], FrameType | None, tuple[int, int]]:
        """The phase, what the operator is about, a key for its call site, the user's frame, and
        the serial number and the number of the pass."""
        if frame is None or frame.f_code is ENGINE:
            origin, of = self._origin(state)
            return BACKWARD, origin, (operator, origin), None, of
        subject: Subject = None
        phase = state.phase
        if phase >= EVAL or state.backward_depth:
            phase = self._settle_phase(state, operator, sources)
        now = self.passes.evaluation if phase == EVAL else self.passes.training
        of = now.serial, now.number
        if phase == BACKWARD:
            subject, of = self._origin(state)
        if phase == OPTIMIZER:
            if sources:
                subject = sources[0].subject
                if operator.nested or not subject:
                    subject = self._subject_of(state, tensors, sources)
            place = (operator, state.scope, id(frame.f_code), frame.f_lasti, subject)
            return phase, subject, place, frame, of
        user = find_user_frame(frame)
        # In a module, a helper called from two lines is two places.
        caller = user.f_back if state.depth else None
        key = (
            operator,
            state.scope,
            2 * phase + _grad_enabled(),
            id(frame.f_code),
            frame.f_lasti,
            id(user.f_code),
            user.f_lasti,
            caller.f_lasti if caller is not None else 0,
            subject,
        )
        return phase, subject, key, user, of

    def _node_at(self, site: Site | None, serial: int) -> Node | None:
        """The node of this call of a call site; None if there have not been so many in a pass."""
        if site is None:
            return None
        marks, at = self.marks.numbers, site.at
        if marks[at] != serial:
            marks[at], marks[at + 1] = serial, 1
            return site.first
        position, more = marks[at + 1], site.more
        if position >= MOST_NODES:
            self._say_recurring(site.first)
        place = min(position, MOST_NODES - 1)
        if more is None or place > len(more):
            return None
        marks[at + 1] = position + 1
        return more[place - 1]

    def _say_recurring(self, node: Node) -> None:
        say_once(
            f"{node.name} and others are called more than {MOST_NODES} times in one pass: "
            "what comes after is recorded as further calls of the last one",
            "recurring",
        )

    def _add_call(self, node: Node, pass_number: int) -> int:
        """The index of a call that begins."""
        calls = self.calls
        index = len(calls.nodes)
        calls.nodes.append(node)
        if (calls.passes[-1] if calls.passes else 0) != pass_number:
            calls.passes.extend((index, pass_number))
        return index

    # ------------------------------------------------------------------ sources
    def outside(self, tensor: Tensor) -> Outside:
        found = self.names.by_id.get(self.key(tensor))
        if found is None:
            if type(tensor) is torch.nn.Parameter and self.setup_done:
                found = self.names.parameter(tensor)
            else:
                found = UNKNOWN
        self.known.put_outside(self.key(tensor), found)
        return found

    def source_of(self, tensor: Tensor) -> Source:
        """What produced `tensor` in this step, or where it came from."""
        return self.known.get(self.key(tensor)) or self.outside(tensor)

    def add_arrival(self, tensor: Tensor, outside: Outside) -> None:
        """A tensor came in from outside, such as part of a batch."""
        if self.on_arrival is not None:
            self.on_arrival(tensor, outside)
        self.known.put_outside(self.key(tensor), outside)
        if not self.setup_done:
            self._arrivals[id(tensor)] = (tensor, outside)

    def forget(self, tensor: Any) -> None:
        """A tensor appeared without an operator: what was known of its address is void."""
        self.known.drop(self.key(tensor))

    # ------------------------------------------------------------------ nodes

    def _origin(self, state: ThreadState) -> tuple[Node | Outside | None, tuple[int, int]]:
        """The forward node, or the parameter, whose gradient is computed, and the pass of it."""
        current = self.current_grad_node()
        now = self.passes.training
        if current is None:
            return None, (now.serial, now.number)
        number, name, leaf = current
        if number == _ACCUMULATE:
            return self._leaf(leaf), (now.serial, now.number)
        home = state.home
        if home is not None and (home is state or not state.node_of_number):
            return home.node_for(number), self.passes.of_number(home, number)
        return self.threads.node_for(number, name, state), self.passes.of_number(home, number)

    def _leaf(self, variable: Tensor | None) -> Outside:
        """The parameter a gradient is accumulated for; tensors without a name share UNKNOWN."""
        if variable is None:
            return UNKNOWN
        found = self.names.by_id.get(self.key(variable))
        if found is None and type(variable) is torch.nn.Parameter:
            found = self.names.parameter(variable)
        return found or UNKNOWN

    def _subject_of(
        self, state: ThreadState, tensors: list[Tensor], sources: list[Source]
    ) -> str | tuple[str, ...] | None:
        """The parameter an optimizer's operator is about, or all of them in their order."""
        subjects = tuple(source.subject for source in sources if source.subject)
        if state.stepping is not None and not subjects:
            self.names.add_new_state(state.stepping)  # it may have made some just now
            known = (self.names.by_id.get(self.key(tensor)) for tensor in tensors)
            subjects = tuple(entry.subject for entry in known if entry is not None)
        if len(set(subjects)) > 1:
            return subjects
        return subjects[0] if subjects else None

    def _settle_phase(self, state: ThreadState, operator: Operator, sources: list[Source]) -> int:
        """The phase where it depends on more than the place: in and after backward, around eval."""
        if state.phase == OPTIMIZER:
            return OPTIMIZER
        if state.phase >= DATA:
            return DATA
        if state.backward_depth:
            return BACKWARD
        if state.phase == EVAL:
            if state.depth == 0 and _grad_enabled():
                state.phase = FORWARD
        elif state.phase in (TAIL, LOOSE_TAIL):
            return OPTIMIZER if not state.depth and _updates(operator, sources) else FORWARD
        return state.phase

    def _new_node(
        self,
        operator: Operator,
        state: ThreadState,
        phase: int,
        subject: Subject,
        frame: FrameType | None,
        sources: list[Source],
        texts: Texts,
    ) -> Node:
        engine = frame is None or frame.f_code is ENGINE
        op_type, scope, module_class = operator.op_type, state.scope.path, state.scope.module_class
        stack = self.stacks.take(frame)
        forward = subject if isinstance(subject, Node) else None
        gradient_of = ""
        if phase == FORWARD and frame is not None and frame.f_code is _MAKE_GRADS:
            phase, scope, module_class = BACKWARD, GRADIENTS + ROOT, ""
        elif phase == BACKWARD:
            if isinstance(subject, Outside):
                forward = self._first_use.get(subject.name)
                if engine and op_type in _ACCUMULATING:
                    op_type, gradient_of = "AccumulateGrad", subject.name
            if engine and forward is not None:
                stack = forward.stack
            if not engine and is_recompute(stack):
                scope = RECOMPUTE + scope
            elif forward is not None and (engine or state.scope is state.backward_base):
                scope = GRADIENTS + forward.scope.removeprefix(RECOMPUTE)
                module_class = forward.module_class
            else:
                scope = GRADIENTS + scope
        line = self._line(operator, scope, phase, stack)
        if line is not None and len(line) >= MOST_NODES:
            self._say_recurring(line[0])
            return line[-1]
        parameter = subject if isinstance(subject, str) else ""
        if isinstance(subject, Outside):
            parameter = subject.name
        graph = _GRAPHS.get(phase, TRAINING_GRAPH)
        count = self._op_counts.setdefault((graph, scope, op_type), itertools.count())
        node = Node(
            id=len(self.nodes),
            graph=graph,
            name=node_name(scope, op_type, next(count)),
            op_type=op_type,
            op=operator.name,
            scope=scope,
            module_class=module_class,
            phase=PHASES[phase],
            stack=stack,
            forward=forward,
            parameter=parameter,
            gradient_of=gradient_of,
            with_grad=_grad_enabled(),
            arguments=texts(),
            sources=sources,
        )
        self.nodes.append(node)
        if line is not None:
            line.append(node)
        self._note_first_uses(node, sources)
        self.pipeline.add_node(node)
        return node

    def _line(self, operator: Operator, scope: str, phase: int, stack: Stack) -> list[Node] | None:
        """The nodes of an operator in one scope on one line; None where it is about a subject.

        Code that is compiled anew each time it runs has new call sites each time.
        """
        if phase in (BACKWARD, OPTIMIZER) or (where := stack.where) is None:
            return None
        key = operator.name, scope, phase, where.file, where.line, _grad_enabled()
        return self._lines.setdefault(key, [])

    def _note_first_uses(self, node: Node, sources: list[Source]) -> None:
        """Remember the first node that reads a parameter differentiably: its gradient's home."""
        if node.graph == TRAINING_GRAPH and _grad_enabled():
            for source in sources:
                if isinstance(source, Outside) and source.kind == "parameter":
                    self._first_use.setdefault(source.name, node)

    def forward_begins(self) -> None:
        """A differentiable operator: training starts here, or a step after an update by hand."""
        if self._local.state.phase == LOOSE_TAIL:
            self.on_forward()
        else:
            self.end_setup()

    def end_setup(self) -> None:
        """The first differentiable operator or module call: training starts here."""
        if not self.setup_done:
            self.setup_done = True
            self.known.restart(self.names.by_id)
            for tensor, outside in self._arrivals.values():
                self.add_arrival(tensor, outside)
            self._arrivals.clear()
            self.threads.leave_setup()
            self.on_setup_end()

    # ------------------------------------------------------------------ calls

    def add_outputs(
        self,
        operator: Operator,
        node: Node,
        produced: list[Tensor | None],
        tensors: list[Tensor],
    ) -> None:
        """Give each output its slot and, where it is a parameter or a gradient, that name."""
        source_of = {id(t): s for t, s in zip(tensors, node.sources, strict=False)}
        of_unwritten = operator.view and bool(node.sources) and _is_unwritten(node.sources[0])
        unwritten = operator.uninitialised or of_unwritten
        for slot in range(len(node.outputs), len(produced)):
            source = source_of.get(id(produced[slot]))
            label = node.gradient_of
            subject = source.subject if source is not None else ""
            if isinstance(source, Output):
                label = label or source.parameter
            elif isinstance(source, Outside) and source.kind == "parameter":
                label = label or source.name
            subject = label or subject or node.parameter
            node.outputs.append(Output(node, slot, label, subject, unwritten))
            if node.outputs[-1].subject or unwritten:
                self.calls.renewed.append(node)

    def _renew_views(self, node: Node) -> None:
        """Views are of memory that was never written to, or are not any more, call by call."""
        unwritten = bool(node.sources) and _is_unwritten(node.sources[0])
        for output in node.outputs:
            if output.uninitialised != unwritten:
                output.uninitialised = unwritten
                self.calls.renewed.append(node)

    def _measure_inputs(
        self, flags: int, node: Node, index: int, tensors: list[Tensor], sources: list[Source]
    ) -> None:
        """Rows of inputs, where no sink wants the tensors themselves."""
        stream = 0
        if tensors and tensors[0].is_cuda:
            stream = _stream_of(tensors[0])
        self.pipeline.meter.moments.extend((index, stream, time.time_ns() // 1000))
        if flags & _INPUT_STATS:
            wanted = [not (s.__class__ is Output and s.uninitialised) for s in sources]
        elif flags & _OUTSIDE_STATS:
            wanted = [s.__class__ is Outside and s.kind != "state" for s in sources]
        else:
            return
        if True not in wanted:
            return
        with self._measuring():
            measure, step, node_id = self.pipeline.meter.measure, self.step, node.id
            for slot, wants in enumerate(wanted):
                if wants:
                    measure(step, node_id, index, INPUT, slot, tensors[slot], sources[slot])

    def _measure_outputs(
        self,
        operator: Operator,
        node: Node,
        index: int,
        produced: list[Tensor | None],
        tensors: list[Tensor],
        sources: list[Source],
    ) -> None:
        """Rows of outputs, where no sink wants the tensors themselves."""
        meter = self.pipeline.meter
        with self._measuring():
            meter.found_bad = False
            viewed = _viewed(operator, produced, tensors, sources)
            measure, step, node_id = meter.measure, self.step, node.id
            with meter.engine.gathering() if len(produced) >= MANY else _FREE:
                for slot, (tensor, output) in enumerate(zip(produced, node.outputs, strict=False)):
                    if tensor is not None and not output.uninitialised:
                        measure(step, node_id, index, OUTPUT, slot, tensor, output, viewed)
            if meter.found_bad and self.alarm is not None:
                self.alarm(node, index, True, tensors, produced)

    def _measuring(self) -> Any:
        """Guards that looking at tensors needs here: our mode is off, others may be on."""
        if self.threads.many or _function_modes():
            return _alone(self._lock)
        return _FREE

    def begin_call(
        self,
        plan: Plan,
        node: Node,
        index: int,
        tensors: list[Tensor],
        pass_number: int,
        sources: list[Source] | None = None,
    ) -> Call:
        """Deliver the inputs of a call that is about to run; its sources, if not the node's."""
        if sources is None:
            sources = node.sources
        stream = 0
        if tensors and tensors[0].is_cuda:
            stream = _stream_of(tensors[0])
        call = Call(node, self.step, index, stream, time.time_ns() // 1000, pass_number)
        values = [
            Value(slot, tensor, source)
            for slot, (tensor, source) in enumerate(zip(tensors, sources, strict=True))
            if not (isinstance(source, Output) and source.uninitialised)
        ]
        if self.late:  # a collective may still be writing to them
            values = [value for value in values if _memory_of(value.tensor) not in self.late]
        with quiet(), self._lock:
            self.pipeline.inputs(plan, call, values)
        return call

    def end_call(
        self,
        plan: Plan,
        call: Call,
        operator: Operator,
        produced: list[Tensor | None],
        tensors: list[Tensor],
        sources: list[Source],
    ) -> None:
        """Deliver the outputs of a call; `tensors` and `sources` are its inputs."""
        values = [
            Value(slot, tensor, None)
            for slot, tensor in enumerate(produced)
            if tensor is not None and not call.node.outputs[slot].uninitialised
        ]
        if operator.asynchronous:
            for value in values:
                self.late.setdefault(_memory_of(value.tensor), []).append((plan, call, value))
            return
        with quiet(), self._lock:
            meter = self.pipeline.meter
            meter.found_bad = False
            viewed = _viewed(operator, produced, tensors, sources)
            self.pipeline.outputs(plan, call, values, viewed)
            if meter.found_bad and self.alarm is not None:
                self.alarm(call.node, call.index, True, tensors, produced)

    def _deliver_late(self, tensors: list[Tensor]) -> None:
        """Outputs of a collective are complete once something else reads them."""
        for tensor in tensors:
            for plan, call, value in self.late.pop(_memory_of(tensor), ()):
                with quiet():
                    self.pipeline.meter.before_write([value.tensor])  # it has been written to
                    self.pipeline.outputs(plan, call, [value])

    # ------------------------------------------------------------------ for the native hook

    def _rebind(self) -> None:
        if self.hook is not None:
            self.hook.begin()

    def measure_slowly(
        self,
        step: int,
        node: int,
        call: int,
        side: int,
        slot: int,
        tensor: Tensor,
        source: Source,
    ) -> None:
        """A value that native code cannot read."""
        with quiet():
            self.pipeline.meter.measure(step, node, call, side, slot, tensor, source)

    def submit(self, tensor: Tensor, address: int) -> bool:
        """A value on a device; returns whether its row is there already."""
        with quiet():
            return self.pipeline.meter.engine.fill(tensor, address)

    # ------------------------------------------------------------------ steps

    def finish_late(self) -> None:
        """Nothing will read the collectives still under way: take what they have."""
        for late in self.late.values():
            for plan, call, value in late:
                with quiet():
                    self.pipeline.outputs(plan, call, [value])
        self.late.clear()

    @property
    def has_calls(self) -> bool:
        """Whether any operator ran in the step under way."""
        return bool(self.calls.nodes)

    @property
    def raised(self) -> bool:
        """Whether an operator of the step under way raised."""
        return any(node.raised for node in self.calls.nodes)

    def begin_step(self, step: int) -> None:
        """Start counting calls anew."""
        self.step = step
        before, self.calls = self.calls, Calls()
        before.variant_after = self.calls.variant_before
        self.passes.begin_step()
        self._rebind()

    def calls_so_far(self) -> Calls:
        """The calls of the step under way."""
        if self.hook is not None:
            self.hook.take_links(self.calls)
        return self.calls

    def end_backward(self) -> None:
        """The outermost backward has ended."""
        self.passes.end_backward(len(self.calls))
        self.tell_pass()

    def tell_pass(self) -> None:
        """Another pass has begun."""
        if self.hook is not None:
            self.hook.set_passes()

    def finish_step(self) -> Calls:
        """The calls of the step that ends; what crosses into the next comes from outside."""
        calls = self.calls_so_far()
        if calls.changes:
            self.pipeline.wiring += 1
        self.known.restart(self.names.by_id)
        if calls.is_like(self._last_calls):
            calls.share_orders(self._last_calls)
        self._last_calls = calls
        return calls


def _updates(operator: Operator, sources: list[Source]) -> bool:
    """Whether an operator after backward, outside modules, works on gradients or parameters.

    With gradients on, only what writes to one of them does; all else is computed for a loss.
    """
    if _grad_enabled():
        return operator.writes and bool(sources) and _is_updated(sources[0])
    return any(_is_updated(source) for source in sources)


def _is_updated(source: Source) -> bool:
    """Whether a value is a parameter, a gradient, or was made of them after forward."""
    if source.subject:
        return True
    return source.__class__ is Output and source.node.phase in _AFTER_FORWARD


def _is_unwritten(source: Source) -> bool:
    return isinstance(source, Output) and source.uninitialised


def _viewed(
    operator: Operator,
    produced: list[Tensor | None],
    tensors: list[Tensor],
    sources: list[Source],
) -> tuple[Tensor, Source] | None:
    """The input whose very elements the output has, and where that came from."""
    if not (operator.same_elements and produced and tensors):
        return None
    view, base = produced[0], tensors[0]
    if view is None or view.numel() != base.numel() or view.dtype != base.dtype:
        return None
    return base, sources[0]


def _memory_of(tensor: Tensor) -> int:
    try:
        return int(torch._C._storage_id(tensor))
    except NotImplementedError:
        return -id(tensor)


def _stream_of(tensor: Tensor) -> int:
    """The id of the current stream on a tensor's device."""
    found: int = torch._C._cuda_getCurrentStream(tensor.get_device())[0]
    return found


@contextlib.contextmanager
def _alone(lock: threading.RLock) -> Iterator[None]:
    with quiet(), lock:
        yield

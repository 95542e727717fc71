"""Finds the node of an operator, its inputs and outputs, and tells the pipeline of them.

`OperatorWatch.begin` is called before an operator runs and `finish` after it, by the native
observer for call sites it does not know yet, and for every operator by the fallback without
native code. native/hook/watching.h does the same for known call sites.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward

from opscope.calls import Calls, StepSeries, note_sources
from opscope.capture.attribution import UNKNOWN, AttributedTo, Attribution
from opscope.capture.delivery import Delivery
from opscope.capture.known import KnownTensors
from opscope.capture.node_book import NodeBook
from opscope.capture.operators import Operator
from opscope.capture.parameters import TensorNames
from opscope.capture.passes import Passes
from opscope.capture.stacks import Stacks, find_user_frame, is_recompute
from opscope.capture.thread_state import (
    AWAITING_FORWARD,
    BACKWARD,
    DATA,
    EVAL,
    FORWARD,
    OPTIMIZER,
    PHASES,
    SETUP,
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
    Source,
    Want,
)
from opscope.interruptions import uninterrupted
from opscope.names import GRADIENTS, RECOMPUTE, ROOT
from opscope.pipeline import Pipeline, Plan

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
"""The operators by which autograd makes an incoming gradient a parameter's `.grad`."""
_AFTER_FORWARD = (BACKWARD, OPTIMIZER)
_GRAPHS = {EVAL: EVAL_GRAPH, SETUP: SETUP_GRAPH, DATA: DATA_GRAPH}
_FREE = contextlib.nullcontext()
_function_modes = torch._C._len_torch_function_stack
# Plain ints: testing an enum's flag makes an enum, per operator.
_OUTPUT_STATS, _ARGUMENTS = int(Want.OUTPUT_STATS), int(Want.ARGUMENTS)
_VALUES = int(Want.INPUT_VALUES | Want.OUTPUT_VALUES | Want.PARAMETERS)
ReadTexts = Callable[[], dict[str, str]]
"""The arguments of the call under way that are no tensors, as text."""


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
        names: TensorNames,
        key: Callable[[Any], int],
        known: KnownTensors,
    ) -> None:
        self.key = key
        """Returns the key a tensor is known by."""
        self.hook: Hook | None = None
        self.pipeline = pipeline
        self.threads = threads
        self._local = threads.local
        self.names = names
        self.stacks = Stacks()
        self.book = NodeBook(self._add_node)
        self.delivery = Delivery(pipeline, threads)
        self.recording = False
        self.step = 0
        self.setup_done = False
        self.on_setup_end: Callable[[], None] = lambda: None
        self.on_forward: Callable[[], None] = lambda: None
        """Called when forward goes on after an update by hand, without any module."""
        self.on_arrival: Callable[[Tensor, Outside], None] | None = None
        self._steps = StepSeries()
        self.calls = self._steps.calls
        """Of the step under way."""
        self._last_calls = Calls()
        self.passes = Passes()
        self.attribution = Attribution(threads, names, self.passes, key)
        self.known = known
        self._arrivals: dict[int, tuple[Tensor, Outside]] = {}
        self._first_use: dict[str, Node] = {}
        self._late = self.delivery.late
        pipeline.meter.made_in = lambda tensor: known.call_of(key(tensor))

    # ------------------------------------------------------------------ a call

    def begin(
        self,
        operator: Operator,
        tensors: list[Tensor],
        sources: list[Source],
        written: list[Tensor],
        frame: FrameType | None,
        texts: ReadTexts,
    ) -> Begun:
        """Find the node of an operator that is about to run, and tell of its inputs.

        `tensors` are its inputs, `sources` where they come from, `written` those it writes to and
        `frame` is where it was called.
        """
        state = self._local.state
        if not state.admitted:
            self.threads.admit(state)
        phase, subject, key, user, (serial, number) = self._call_site(
            operator, state, frame, tensors, sources
        )
        with self.delivery.lock if self.threads.many else _FREE:
            node = self.book.find(key, serial)
            if node is None:
                node = self._new_node(operator, state, phase, subject, frame, sources, texts)
                codes = (frame.f_code, user.f_code) if frame and user else ()
                self.book.place(key, serial, node, codes)
            index = self._add_call(node, number)
            if node.variant < 0 or sources != node.sources:
                note_sources(self.calls, index, node, sources)
        if self._late and not operator.asynchronous:
            self.delivery.deliver_late(tensors[1:] if operator.completes else tensors)
        plan = node.plan
        if plan is None or plan.revision != self.pipeline.revision:
            plan = self.pipeline.plan_for(node)
        begun = Begun(operator, node, index, number, plan, tensors, sources, written)
        flags = plan.flags
        if flags & _ARGUMENTS:
            node.arguments = texts()
        if flags & _VALUES or (flags and (operator.asynchronous or self._late)):
            begun.call = self.delivery.begin_call(plan, node, index, tensors, number, sources)
            begun.flags = 0
        elif flags and self.pipeline.takes_rows:
            self.delivery.measure_inputs(flags, node, index, tensors, sources)
        else:
            begun.flags = 0
        if operator.asynchronous or operator.waits:
            self.pipeline.meter.before_write(tensors)  # schemas of collectives do not say so
        elif written:
            self.pipeline.meter.before_write(written)
        return begun

    def note_arguments(self, node: Node, texts: dict[str, str]) -> None:
        """Note the arguments of the latest call of a node, which else has those of its first."""
        if node.arguments != texts:
            node.arguments = texts
            self.calls.renewed.append(node)

    def finish(self, begun: Begun, produced: list[Tensor | None]) -> None:
        """Take in the outputs, by slot, of an operator that has run."""
        operator, node, tensors = begun.operator, begun.node, begun.tensors
        if node.raised:
            node.raised = False
        if len(node.outputs) < len(produced):
            self.add_outputs(operator, node, produced, tensors)
        elif operator.view:
            self._renew_views(node)
        if self._late and operator.completes:
            self.delivery.deliver_late(tensors)
        if begun.call is not None:
            self.delivery.end_call(
                begun.plan, begun.call, operator, produced, tensors, begun.sources
            )
        elif begun.flags & _OUTPUT_STATS:
            self.delivery.measure_outputs(
                operator, node, begun.index, produced, tensors, begun.sources
            )

    def _call_site(
        self,
        operator: Operator,
        state: ThreadState,
        frame: FrameType | None,
        tensors: list[Tensor],
        sources: list[Source],
    ) -> tuple[int, AttributedTo, tuple[object, ...], FrameType | None, tuple[int, int]]:
        """The phase, what the operator is about, a key for its call site, the user's frame, and
        the serial number and the number of the pass."""
        if frame is None or frame.f_code is ENGINE:
            origin, of = self.attribution.origin(state)
            return BACKWARD, origin, (operator, origin), None, of
        subject: AttributedTo = None
        phase = state.phase
        if phase >= EVAL or state.backward_depth:
            phase = self.attribution.phase_of(state, operator, sources)
        now = self.passes.evaluation if phase == EVAL else self.passes.training
        of = now.serial, now.number
        if phase == BACKWARD:
            subject, of = self.attribution.origin(state)
        if phase == OPTIMIZER:
            if sources:
                subject = sources[0].subject
                if operator.nested or not subject:
                    subject = self.attribution.subject_of(state, tensors, sources)
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
        """Return the output of this step that `tensor` is, or the place outside it came from."""
        return self.known.get(self.key(tensor)) or self.outside(tensor)

    def add_arrival(self, tensor: Tensor, outside: Outside) -> None:
        """Note a tensor that came in from outside, such as part of a batch."""
        if self.on_arrival is not None:
            self.on_arrival(tensor, outside)
        self.known.put_outside(self.key(tensor), outside)
        if not self.setup_done:
            self._arrivals[id(tensor)] = (tensor, outside)

    def forget(self, tensor: Any) -> None:
        """Forget what was known of the address of a tensor that no operator made."""
        self.known.drop(self.key(tensor))

    # ------------------------------------------------------------------ nodes

    def _new_node(
        self,
        operator: Operator,
        state: ThreadState,
        phase: int,
        subject: AttributedTo,
        frame: FrameType | None,
        sources: list[Source],
        texts: ReadTexts,
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
        line = None
        if phase not in _AFTER_FORWARD and (where := stack.where) is not None:
            line = operator.name, scope, phase, where.file, where.line, _grad_enabled()
        parameter = subject if isinstance(subject, str) else ""
        if isinstance(subject, Outside):
            parameter = subject.name
        graph = _GRAPHS.get(phase, TRAINING_GRAPH)
        return self.book.add(
            graph,
            scope,
            op_type,
            line,
            op=operator.name,
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

    def _add_node(self, node: Node) -> None:
        self._note_first_uses(node, node.sources)
        self.pipeline.add_node(node)

    def _note_first_uses(self, node: Node, sources: list[Source]) -> None:
        """Remember the first node that reads a parameter differentiably: its gradient's home."""
        if node.graph == TRAINING_GRAPH and _grad_enabled():
            for source in sources:
                if isinstance(source, Outside) and source.kind == "parameter":
                    self._first_use.setdefault(source.name, node)

    def forward_begins(self) -> None:
        """Begin training, or a step after an update by hand, at a differentiable operator."""
        if self._local.state.phase == AWAITING_FORWARD:
            self.on_forward()
        else:
            self.end_setup()

    def end_setup(self) -> None:
        """Begin training, at the first differentiable operator or module call."""
        if not self.setup_done:
            self._end_setup()

    @uninterrupted
    def _end_setup(self) -> None:
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

    # ------------------------------------------------------------------ for the native hook

    def _rebind(self) -> None:
        if self.hook is not None:
            self.hook.begin()

    # ------------------------------------------------------------------ steps

    @property
    def has_calls(self) -> bool:
        """True if any operator ran in the step under way."""
        return bool(self.calls.nodes)

    @property
    def raised(self) -> bool:
        """True if an operator of the step under way raised."""
        return any(node.raised for node in self.calls.nodes)

    def begin_step(self, step: int) -> None:
        """Start counting calls anew."""
        self.step = self.delivery.step = step
        self._steps.begin_step()
        self.calls = self._steps.calls
        self.passes.begin_step()
        self._rebind()

    def calls_so_far(self) -> Calls:
        """The calls of the step under way."""
        if self.hook is not None:
            self.hook.take_links(self.calls)
        return self.calls

    def end_backward(self) -> None:
        """Note that the outermost backward has ended."""
        self.passes.end_backward(len(self.calls))
        self.tell_pass()

    def tell_pass(self) -> None:
        """Tell the observer that another pass has begun."""
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


def _is_unwritten(source: Source) -> bool:
    return isinstance(source, Output) and source.uninitialised

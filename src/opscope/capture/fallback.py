"""Watching operators without native code: a dispatch mode, which takes part in running them.

It is slower than the observer, sees only the thread that capture was started in and autograd's own,
and changes some of what torch does: under a mode autograd adds gradients out of place, and saves
tensors by `detach`. docs/concepts.md has the list.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from opscope.capture.attribution import GradNode
from opscope.capture.failures import is_ours, report_failure
from opscope.capture.operators import Operator, flatten
from opscope.capture.thread_state import (
    AWAITING_FORWARD,
    KEPT_NUMBERS,
    OPTIMIZER,
    SETUP,
    ThreadState,
)
from opscope.capture.watching import Begun, OperatorWatch
from opscope.events import Node, Output, Source

_next_number = torch.autograd._get_sequence_nr
_PLAIN = Tensor.__torch_dispatch__
_ORDINARY = (Tensor, torch.nn.Parameter)
_ANCHOR_EVERY = 1000
_RESERVED = -1 << 32
"""Stands for the last number while numbers are reserved: no operator can have made so many."""


def _keys(*names: str) -> Any:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys.add(getattr(torch._C.DispatchKey, name))
    return keys


_LAZY = _keys("Conjugate", "Negative", "ZeroTensor")
"""Keys above Python's, which torch excludes while a mode runs an operator, though operators call
others inside that need them."""


class Fallback(TorchDispatchMode):  # type: ignore[misc]
    """Tells of the operators of the thread that it was made in."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, watch: OperatorWatch) -> None:
        super().__init__()
        self._watch = watch
        self._numbering = Numbering()
        self._pushed = False
        self._anchors: tuple[list[Any], list[Any]] = ([], [])
        self._anchored = (0, 0)
        self._latest: tuple[int, dict[int, int]] = (-1, {})
        """The step, and by node the call of it that began last."""
        watch.attribution.current_grad_node = self._current_grad_node

    def set_state(self, recording: bool, many: bool, revision: int) -> None:
        """Switch the recording of operators on or off; the other arguments are for native code."""
        if recording != self._pushed:
            self._pushed = recording
            if recording:
                self._watch.threads.local.state.resume_numbering()
                self._numbering = Numbering()
                push(self)
            else:
                remove(self)

    def mute_thread(self) -> None:
        """Look away from this thread: a mode is of the thread alone that it was pushed in."""

    def remove(self) -> None:
        """Take it off for good."""
        self.set_state(False, False, 0)

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[Any, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if types:
            return self._subclassed(func, types, args, kwargs)
        try:
            operator = func._opscope
        except AttributeError:
            operator = func._opscope = Operator.of(func)
        kwargs = kwargs or {}
        if operator.ignored or not self._watch.recording:
            return operator.call(*args, **kwargs)
        begun = self._begin(operator, args, kwargs, sys._getframe().f_back)
        try:
            result = _run(operator, args, kwargs)
        except BaseException:
            if begun is not None:
                begun.node.raised = True
            raise
        if begun is not None:
            self._finish(begun, operator.produced(result, args, kwargs))
        return result

    def _begin(self, operator: Operator, args: Any, kwargs: Any, frame: Any) -> Begun | None:
        watch = self._watch
        try:
            state = watch.threads.local.state
            # Autograd numbers its nodes before the operator reaches us.
            number = _next_number()
            if state.phase in (SETUP, AWAITING_FORWARD) and number != state.last_number:
                watch.forward_begins()
            tensors: list[Tensor] = []
            flatten(args, tensors)
            flatten(tuple(kwargs.values()), tensors)
            written = operator.written(args, kwargs)
            if operator.fresh:
                watch.forget(tensors[0])
            sources = [watch.source_of(tensor) for tensor in tensors]
            begun = watch.begin(
                operator, tensors, sources, written, frame, lambda: operator.texts(args, kwargs)
            )
            if any(type(each) is float and each != each for each in (*args, *kwargs.values())):
                watch.note_arguments(begun.node, operator.texts(args, kwargs))
            self._numbering.give(state, number, begun)
            self._note_crossings(begun)
        except Exception as error:
            if not is_ours(error):
                raise
            report_failure(error)
            return None
        return begun

    def _finish(self, begun: Begun, produced: list[Tensor | None]) -> None:
        try:
            self._watch.finish(begun, produced)
            self._note_outputs(begun, produced)
        except Exception as error:
            if not is_ours(error):
                raise
            report_failure(error)

    def _note_outputs(self, begun: Begun, produced: list[Tensor | None]) -> None:
        """Note that the outputs come from this operator."""
        operator, tensors, key = begun.operator, begun.tensors, self._watch.key
        rewritten = {id(tensor) for tensor in begun.written}
        for output, tensor in zip(begun.node.outputs, produced, strict=False):
            if tensor is None:
                continue
            if id(tensor) in rewritten or operator.asynchronous:
                self._watch.known.put_write(key(tensor), output, begun.index)
            elif operator.view and tensors:
                self._add_view(tensor, tensors[0], output, begun.index)
            else:
                self._watch.known.put(key(tensor), output, begun.index)

    def _add_view(self, view: Tensor, base: Tensor, source: Source, call: int) -> None:
        watch = self._watch
        watch.known.put_view(watch.key(view), watch.key(base), watch.source_of(base), source, call)

    def _note_crossings(self, begun: Begun) -> None:
        """Note the inputs that come from another call than the latest one of their node."""
        watch, step = self._watch, self._watch.step
        if self._latest[0] != step:
            self._latest = step, {}
        latest = self._latest[1]
        for slot, (tensor, source) in enumerate(zip(begun.tensors, begun.sources, strict=True)):
            if isinstance(source, Output):
                call = watch.known.call_of(watch.key(tensor))
                if call >= 0 and call != latest.get(source.node.id):
                    watch.calls.crossings.extend((begun.index, slot, call))
        latest[begun.node.id] = begun.index

    def _subclassed(
        self,
        func: Any,
        types: tuple[Any, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Leave tensor subclasses to themselves; plain types here are autograd saving a tensor."""
        if FakeTensor in types:  # its own mode is at work and wants the operator done
            return func(*args, **kwargs) if kwargs else func(*args)
        if any(cls.__torch_dispatch__ is not _PLAIN for cls in types):
            return NotImplemented
        result = func(*args, **kwargs) if kwargs else func(*args)
        if self._watch.recording and isinstance(result, Tensor) and args:
            watch = self._watch
            call = watch.known.call_of(watch.key(args[0]))
            self._add_view(result, args[0], watch.source_of(args[0]), call)
        return result

    def _current_grad_node(self) -> GradNode | None:
        current = torch._C._current_autograd_node()
        if current is None:
            return None
        self._anchor(current)
        return current._sequence_nr(), current.name(), getattr(current, "variable", None)

    def _anchor(self, node: Any) -> None:
        """Keep some of the Python objects that asking for a node makes, until a step later.

        torch frees nodes with such objects by recursion, which ends at one that is kept: without
        that the stack overflows in a graph of 50,000 operators.
        """
        step, count = self._anchored
        if step != self._watch.step:
            self._anchors = (self._anchors[1], [])
            step, count = self._watch.step, 0
        if count % _ANCHOR_EVERY == 0:
            self._anchors[1].append(node)
        self._anchored = (step, count + 1)

    def enter_hook(self) -> int:
        """Reserve an operator's numbers before a pack hook runs operators of its own."""
        self._numbering.reserve(self._watch.threads.local.state)
        return 0

    def leave_hook(self, entered: int, raised: bool) -> None:
        """Go back from the pack hook to the operator that it interrupted."""
        self._numbering.keep_reserved(self._watch.threads.local.state)


class Numbering:
    """Finds which operator made which of autograd's nodes, by numbers that are made before it runs.

    CopySlices gets its number only after the operator that wrote in place to a view.
    """

    def __init__(self) -> None:
        self._pending_view = False
        self._previous: Node | None = None
        self._reserved: list[int] = []

    def give(self, state: ThreadState, now: int, begun: Begun) -> None:
        """Attribute the autograd nodes made since the last operator to this one."""
        node = begun.node
        if state.last_number == _RESERVED:
            for index in self._reserved:
                state.node_of_number[index] = node
            self._reserved.clear()
            state.last_number = state.number_base + len(state.node_of_number)
        made = now - state.last_number
        if made < 0 or made > KEPT_NUMBERS:
            state.resume_numbering()
        elif made:
            if self._pending_view:
                state.node_of_number.append(self._previous)
                made -= 1
            state.node_of_number.extend([node] * made)
            state.last_number = now
        self._pending_view = (
            bool(begun.written)
            and state.phase != OPTIMIZER
            and torch.is_grad_enabled()
            and begun.tensors[0]._is_view()
        )
        self._previous = node

    def reserve(self, state: ThreadState) -> None:
        """Reserve the numbers made so far for the next operator, before a hook makes its own."""
        if state.last_number == _RESERVED:
            state.last_number = state.number_base + len(state.node_of_number)
        made = _next_number() - state.last_number
        if 0 < made <= KEPT_NUMBERS:
            first = len(state.node_of_number)
            self._reserved += range(first, first + made)
            state.node_of_number += [None] * made
            state.last_number += made

    def keep_reserved(self, state: ThreadState) -> None:
        """Leave what was reserved to the next operator, now that the hook is over."""
        if self._reserved:
            state.last_number = _RESERVED


def _run(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as torch would run it below autograd."""
    call = operator.call
    if any(isinstance(value, Tensor) and type(value) not in _ORDINARY for value in args):
        call = operator.call_plainly
    assert call is not None
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded - _LAZY):
        return call(*args, **kwargs)


def push(mode: TorchDispatchMode) -> None:
    """Put `mode` under all others of this thread, so that the user's pop off before it."""
    others = _unwind()
    _push_mode(mode)
    _rewind(others)


def remove(mode: TorchDispatchMode) -> None:
    """Take `mode` out of this thread's stack, wherever it is."""
    _rewind([other for other in _unwind() if other is not mode])


def _unwind() -> list[TorchDispatchMode]:
    """Empty this thread's mode stack; outermost first."""
    stack: list[TorchDispatchMode] = _get_current_dispatch_mode_stack()
    for mode in reversed(stack):
        _pop_mode(getattr(mode, "_mode_key", None))
    return stack


def _rewind(modes: list[TorchDispatchMode]) -> None:
    for mode in modes:
        _push_mode(mode)

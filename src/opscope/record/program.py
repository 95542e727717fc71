"""The program around the operators: modules, phases and steps, for what goes into the ring.

It follows the same rules as the capture (capture/), with less: it knows where an operator runs, not
what it computes.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from opscope.capture.direct_calls import see_direct_calls
from opscope.capture.patches import Patches
from opscope.capture.python_stack import keep_chunks
from opscope.capture.recognising import (
    compiler,
    dynamo_compiling,
    ends_in_gradients,
    fake_mode,
    find_optimizers,
    has_parameters,
)
from opscope.capture.scopes import Scope
from opscope.capture.stacks import place_of
from opscope.capture.steps import StepClock
from opscope.interruptions import forgiving, hear_at_once, postpone_handlers
from opscope.messages import say_once
from opscope.names import ROOT
from opscope.native import shared
from opscope.record.ring import Ring
from opscope.record.step_facts import StepFactsRecorder


def _tell(error: Exception) -> None:
    say_once(f"the recorder cannot note everything: {type(error).__name__}: {error}")


class _ThreadScope:
    """The scope a thread is in, and how deep it is in module calls and backward."""

    __slots__ = ("backward_depth", "depth", "scope")

    def __init__(self, root: Scope) -> None:
        self.scope = root
        self.depth = 0
        self.backward_depth = 0


class _Threads(threading.local):
    """The scope of each thread; what is local to threads takes longer to look up."""

    def __init__(self, root: Scope) -> None:
        self.here = _ThreadScope(root)


class Program:
    """Tells the recorder of modules, phases and steps, from `install` to `uninstall`."""

    def __init__(self, writer: Any, ring: Ring, facts: StepFactsRecorder) -> None:
        self._writer = writer
        self._ring = ring
        self._facts = facts
        self._enter: Callable[[int], int] = writer.enter
        self._leave: Callable[[int], object] = getattr(writer, "leave", writer.enter)
        self._phase: Callable[[int], int] = writer.phase
        self._root = Scope(ROOT, None, "")
        self._numbers: dict[Scope, int] = {}
        self._threads = _Threads(self._root)
        self._clock = StepClock(self._end_step)
        self._patches: Patches = Patches()
        self._hooks: list[Any] = []
        self._device: DeviceMarks | None = None
        self._in_setup = True
        self._step = 0
        self.finds_scopes = True
        """False while the capture says which scope an operator is in."""
        self.on_step_end: Callable[[int], None] = lambda step: None
        self.on_network: Callable[[], None] = lambda: None
        """Called once, when the first network is about to be called."""

    def install(self) -> None:
        """Begin with step 0."""
        keep_chunks()
        find_optimizers(self._clock.add)
        self.resume()
        self._facts.begin(0)

    def resume(self) -> None:
        """Follow the program, also again after `uninstall`."""
        postpone_handlers()
        self._patches = Patches()
        wrap = self._patches.wrap
        self._patches.set(nn.Module, "__call__", self._module_call(nn.Module.__call__))
        wrap(torch.autograd, "_engine_run_backward", self._backward)
        wrap(Optimizer, "__init__", self._optimizer_init)
        wrap(torch.amp.GradScaler, "step", self._scaler_step)
        wrap(torch.amp.GradScaler, "update", self._scaler_update)
        wrap(torch.nn.utils, "clip_grad_norm_", self._clip)
        wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", self._next_batch)
        see_direct_calls(self._patches)
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def uninstall(self) -> None:
        """Leave torch as it was."""
        self._patches.undo()
        if self._hooks:
            hear_at_once()
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()

    def mark_step(self) -> None:
        """End the step here, as the script says."""
        self._clock.mark()

    # ------------------------------------------------------------------ modules

    def _number_of(self, scope: Scope) -> int:
        number = self._numbers.get(scope)
        if number is None:
            number = self._numbers[scope] = self._writer.name(shared.NAME_SCOPE, scope.path)
        return number

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        threads, numbers, program, patches = self._threads, self._numbers, self, self._patches
        enter, leave = self._enter, self._leave

        # Called `self` as in torch, whose profiler needs that: see capture/module_calls.py.
        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if dynamo_compiling() or compiler._is_compiling_flag or not patches.active:
                return original(self, *args, **kwargs)
            state = threads.here
            if state.depth and not program.finds_scopes:
                return original(self, *args, **kwargs)
            parent = state.scope
            scope = parent.children.get(id(self))
            if scope is None or scope.module() is not self:
                scope = parent.child(self, True)
            if state.depth == 0:
                program._enter_outermost(self, args, kwargs)
            number = numbers.get(scope)
            if number is None:
                number = program._number_of(scope)
            state.scope = scope
            state.depth += 1
            before = enter(number)
            try:
                return original(self, *args, **kwargs)
            finally:
                leave(before)
                state.depth -= 1
                state.scope = parent

        return functools.wraps(original)(__call__)

    @forgiving(_tell)
    def _enter_outermost(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._threads.here.backward_depth or fake_mode() is not None:
            return
        trains = module.training or torch.is_grad_enabled()
        if not has_parameters(module):
            return
        self._clock.network_called(lambda: (id(module), *place_of(sys._getframe())), trains)
        self._phase(shared.FORWARD if trains else shared.EVAL)
        if self._in_setup:
            self._in_setup = False
            self.on_network()
        add = self._facts.add_call if trains else self._facts.add_evaluated
        add(args, kwargs)
        if self._facts.uses_cuda:
            self._follow_device()

    def _next_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807
            before = self._phase(shared.DATA)
            try:
                batch = original(iterator)
            finally:
                self._phase(before)
            self._note_batch(batch)
            return batch

        return __next__

    @forgiving(_tell)
    def _note_batch(self, batch: Any) -> None:
        self._facts.add_call((batch,), {})

    # ------------------------------------------------------------------ backward and optimizers

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            state = self._threads.here
            if not state.backward_depth and kwargs.get("accumulate_grad"):
                self._note_losses(roots)
            state.backward_depth += 1
            before = self._phase(shared.BACKWARD)
            try:
                return original(roots, *args, **kwargs)
            finally:
                self._phase(before)
                state.backward_depth -= 1
                if not state.backward_depth:
                    if ends_in_gradients(args, kwargs) and fake_mode() is None:
                        self._clock.backward_ended()
                    if self._device is not None:
                        self._mark_device()

        return run_backward

    @forgiving(_tell)
    def _note_losses(self, roots: Any) -> None:
        self._facts.add_losses(roots)
        if self._facts.uses_cuda:
            self._follow_device()

    def _clip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            norm = original(*args, **kwargs)
            self._note_norm(norm)
            return norm

        return clip_grad_norm_

    @forgiving(_tell)
    def _note_norm(self, norm: Any) -> None:
        self._facts.add_norm(norm)

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._note_rates(optimizer)
        if self._threads.here.depth == 0:
            scope = self._root.optimizer(optimizer, True)
            self._enter(self._numbers.get(scope) or self._number_of(scope))
        self._phase(shared.OPTIMIZER)

    @forgiving(_tell)
    def _note_rates(self, optimizer: Optimizer) -> None:
        self._facts.add_rates(optimizer)
        if self._device is not None:
            self._mark_device()

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._threads.here.depth == 0:
            self._leave(0)
        self._phase(shared.FORWARD)
        self._clock.stepped(optimizer)

    def _optimizer_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(optimizer, *args, **kwargs)
            self._clock.add(optimizer)

        return __init__

    def _scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if scaler.is_enabled():
                self._clock.scaler_stepped(optimizer)
            return original(scaler, optimizer, *args, **kwargs)

        return step

    def _scaler_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            self._clock.scaler_updated()
            return result

        return update

    # ------------------------------------------------------------------ steps

    @forgiving(_tell)
    def _end_step(self, skipped: bool) -> None:
        ended, self._step = self._step, self._step + 1
        self._facts.end()
        if self._facts.uses_cuda:
            self._follow_device()
        self._facts.begin(self._step)
        self.on_step_end(ended)

    def _follow_device(self) -> None:
        if self._device is None:
            self._device = DeviceMarks(self._ring)
        self._mark_device()

    @forgiving(_tell)
    def _mark_device(self) -> None:
        if self._device is not None:
            self._device.mark()


class DeviceMarks:
    """Follows how far a GPU has got, by events between the parts of a step."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._pending: deque[tuple[int, Any]] = deque()
        self._failed = False

    def mark(self) -> None:
        """Put an event behind all launched so far, and note how far the GPU has got."""
        native = self._ring.native
        if native is not None and native.mark_device():
            return
        if self._failed or torch.cuda.is_current_stream_capturing():
            return
        try:
            event = torch.cuda.Event()
            event.record()
            self._pending.append((self._ring["head"], event))
            while self._pending and self._pending[0][1].query():
                self._ring["completed"] = self._pending.popleft()[0]
        except RuntimeError:  # the GPU has failed, which the script learns in its own way
            self._failed = True

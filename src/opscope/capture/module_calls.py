"""Calls of modules: scopes, and passes where an outermost one is called."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from opscope.capture.guards import quiet
from opscope.capture.recognising import (
    arguments,
    compiler,
    dynamo_compiling,
    fake_mode,
    has_parameters,
)
from opscope.capture.stacks import place_of
from opscope.capture.thread_state import EVAL, FORWARD, OPTIMIZER, ThreadState
from opscope.capture.torch_program import TorchProgram, say_compiled
from opscope.capture.updates import optimizers_stepping
from opscope.events import Outside
from opscope.interruptions import uninterrupted

_grad_enabled = torch.is_grad_enabled


class ModuleCalls:
    """Follows every call of a module."""

    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        program.patches.set(nn.Module, "__call__", self._module_call(nn.Module.__call__))

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        program, local, enter = self._program, self._program.threads.local, self._enter_outermost

        # Its first argument has the name that it has in torch: torch's profiler, asked for stacks,
        # reads it from the frame and crashes where there is none of that name.
        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if dynamo_compiling() or compiler._is_compiling_flag or not program.follows_modules:
                return original(self, *args, **kwargs)
            state = local.state
            parent = state.scope
            scope = parent.children.get(id(self))
            if scope is None or scope.module() is not self:
                scope = parent.child(self, program.with_class)
            if state.depth == 0:
                enter(state, self, args, kwargs)
                if parent is not state.scope:
                    parent = state.scope
                    scope = parent.child(self, program.with_class)
            state.scope = scope
            state.depth += 1
            try:
                return original(self, *args, **kwargs)
            finally:
                state.depth -= 1
                state.scope = parent

        return functools.wraps(original)(__call__)

    def _enter_outermost(
        self, state: ThreadState, module: nn.Module, args: Any, kwargs: Any
    ) -> None:
        program, watch = self._program, self._program.watch
        if state.phase == OPTIMIZER and state.stepping not in optimizers_stepping():
            state.phase, state.scope = FORWARD, program.threads.root  # its step raised
            state.stepping = None
        if state.backward_depth:
            return
        trains = module.training or _grad_enabled()
        is_network = has_parameters(module)
        if is_network and fake_mode() is None:
            program.clock.network_called(lambda: (id(module), *place_of(sys._getframe())), trains)
        if not watch.recording:
            return
        self._note_call(state, module, arguments(args, kwargs), trains, is_network)
        program.networks()
        if type(module).__name__ == "OptimizedModule":
            say_compiled()

    @uninterrupted
    def _note_call(
        self,
        state: ThreadState,
        module: nn.Module,
        given: list[tuple[str, Tensor]],
        trains: bool,
        is_network: bool,
    ) -> None:
        program, watch = self._program, self._program.watch
        with quiet():
            program.names.add_root(module)
            watch.end_setup()
            if state.phase != OPTIMIZER:
                state.phase = FORWARD if trains else EVAL
            passes, evaluates = watch.passes, state.phase == EVAL
            if is_network and passes.enter(module, state, evaluates, watch.calls):
                watch.tell_pass()
                if program.kept is not None:
                    program.kept.begin_pass()
            for name, tensor in given:
                if watch.source_of(tensor) == ("outside", "", ""):
                    watch.add_arrival(tensor, Outside("batch", name))
                elif program.kept is not None:  # made by an operator, but a batch to the model
                    program.kept.add_batch(tensor, Outside("batch", name))
            if program.kept is not None:
                program.kept.network_called()

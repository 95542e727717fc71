"""Steps of optimizers and gradient scalers: where parameters change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from opscope.capture.guards import plain_torch, quiet
from opscope.capture.optimizer_settings import group_facts
from opscope.capture.parameters import bad_gradients, parameter_facts
from opscope.capture.recognising import find_optimizers
from opscope.capture.thread_state import FORWARD, OPTIMIZER, ThreadState
from opscope.capture.torch_program import NeverEndingTraining, TorchProgram
from opscope.events import GroupFact, ParameterFact
from opscope.interruptions import uninterrupted
from opscope.stats.devices import is_late

_STEP = next(
    constant
    for constant in Optimizer.profile_hook_step.__code__.co_consts
    if isinstance(constant, CodeType)
)
"""The code around every optimizer's `step`, which calls the hooks."""


class Updates:
    """Follows every step of an optimizer."""

    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        self._about_to_step: Optimizer | None = None
        find_optimizers(program.clock.add)
        program.clock.on_idle = self._note_idle
        wrap = program.patches.wrap
        wrap(Optimizer, "__init__", self._optimizer_init)
        wrap(torch.amp.GradScaler, "scale", program.losses.scaling)
        wrap(torch.amp.GradScaler, "step", self._scaler_step)
        wrap(torch.amp.GradScaler, "update", self._scaler_update)
        self._hooks = (
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        )

    def remove(self) -> None:
        """Follow no more steps."""
        for handle in self._hooks:
            handle.remove()

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        state = self._program.threads.local.state
        state.nests = state.stepping is not None  # or a step before has raised
        if state.nests and optimizers_stepping().count(optimizer) > 1:
            return None  # a class that calls its base's step
        state.phase = OPTIMIZER
        state.stepping = optimizer
        if state.depth == 0:
            state.scope = self._program.threads.root.optimizer(optimizer, self._program.with_class)
        with_closure = self._wrap_closure(state, args, kwargs)
        if self._program.watch.recording:
            with quiet():
                self._program.watch.end_setup()
                if with_closure is None:  # or the modules it calls name the parameters first
                    self._program.names.add_optimizer(optimizer)
            if not self._skips_by_itself(optimizer):
                self._look_before_update(optimizer)
        return with_closure

    def _skips_by_itself(self, optimizer: Optimizer) -> bool:
        """Tell whether a fused optimizer will skip the update, as a gradient scaler says.

        On a GPU that is known only with the step's rows, unless we wait for them.
        """
        found = getattr(optimizer, "found_inf", None)
        if not isinstance(found, Tensor):
            return False
        self._program.losses.add_withheld(found)
        if is_late(found) and not self._program.pipeline.strict:
            return False
        with plain_torch():
            return bool(found.item())

    def _look_before_update(self, optimizer: Optimizer) -> None:
        """Judge what went wrong so far before it can reach the parameters."""
        program = self._program

        def facts() -> list[ParameterFact]:
            several = program.threads.many
            return parameter_facts(program.names, program.clock.live(), optimizer, several)

        def groups() -> list[GroupFact]:
            alone = all(each is optimizer for each in program.clock.live())
            return group_facts(program.names, optimizer, alone)

        self._about_to_step = optimizer
        try:
            self._tell_of_update(facts, groups)
            program.safe_points(program.watch.step, True)
        except BaseException:
            program.threads.local.state.stepping = None  # or this would keep the optimizer alive
            raise
        finally:
            self._about_to_step = None

    def _note_idle(self) -> None:
        """Say once what optimizers that never step own; others are told of as they step."""
        program = self._program
        if not program.watch.recording:
            return
        optimizers = program.clock.live()
        with plain_torch(), NeverEndingTraining():
            for optimizer in optimizers:
                program.names.add_optimizer(optimizer)
            program.pipeline.before_update(
                program.watch.calls_so_far,
                tuple,
                lambda: parameter_facts(program.names, optimizers, None, program.threads.many),
                tuple,
            )

    @uninterrupted
    def _tell_of_update(
        self,
        facts: Callable[[], Sequence[ParameterFact]],
        groups: Callable[[], Sequence[GroupFact]],
    ) -> None:
        program = self._program
        with plain_torch(), NeverEndingTraining():
            so_far = program.watch.calls_so_far, program.losses.so_far
            program.pipeline.before_update(*so_far, facts, groups)

    def bad_gradients(self) -> list[str]:
        """Return the parameters whose gradient, about to be used, is not finite."""
        optimizer = self._about_to_step
        return [] if optimizer is None else bad_gradients(self._program.names, optimizer)

    def _wrap_closure(self, state: ThreadState, args: Any, kwargs: Any) -> Any:
        """A closure computes a loss: what runs inside it is forward."""
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._closure(state, args[1]), *args[2:]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._closure(state, kwargs["closure"])}
        return None

    def _closure(self, state: ThreadState, original: Callable[[], Any]) -> Callable[[], Any]:
        def closure() -> Any:
            scope, phase = state.scope, state.phase
            state.scope, state.phase = self._program.threads.root, FORWARD
            try:
                return original()
            finally:
                state.scope, state.phase = scope, phase
                if self._program.watch.recording and state.stepping is not None:
                    with quiet():
                        self._program.names.add_optimizer(state.stepping)

        return closure

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        root, state = self._program.threads.root, self._program.threads.local.state
        outer = None
        if state.nests or state.stepping is not optimizer:
            stepping = optimizers_stepping()
            if stepping.count(optimizer) > 1:
                return
            outer = stepping[1] if len(stepping) > 1 else None  # one that has another step for it
        if state.depth == 0:
            state.scope = root if outer is None else root.optimizer(outer, self._program.with_class)
        state.phase = FORWARD if outer is None else OPTIMIZER
        state.stepping = outer
        if self._program.watch.recording:
            with quiet():
                self._program.names.add_optimizer(optimizer)
        self._program.clock.stepped(optimizer, inside_another=outer is not None)

    def _optimizer_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(optimizer, *args, **kwargs)
            self._program.clock.add(optimizer)

        return __init__

    def _scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if scaler.is_enabled():
                self._program.clock.scaler_stepped(optimizer)
            return original(scaler, optimizer, *args, **kwargs)

        return step

    def _scaler_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            self._program.clock.scaler_updated()
            return result

        return update


def optimizers_stepping() -> list[Any]:
    """The optimizers whose `step` is on the stack, innermost first."""
    found, frame = [], sys._getframe()
    while (back := frame.f_back) is not None:
        frame = back
        if frame.f_code is _STEP:
            found.append(frame.f_locals.get("self"))
    return found

"""Backward: where losses are, and where a step without an optimizer may end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opscope.capture.failures import report_failure
from opscope.capture.guards import quiet
from opscope.capture.recognising import ends_in_gradients, fake_mode, levels_of_grad
from opscope.capture.thread_state import (
    AFTER_BACKWARD,
    AWAITING_FORWARD,
    EVAL,
    FORWARD,
    ThreadState,
)
from opscope.capture.torch_program import TorchProgram


class BackwardCalls:
    """Follows every call of autograd's engine."""

    def __init__(
        self,
        program: TorchProgram,
        begin_forward: Callable[[], None],
        catch_up: Callable[[], None],
    ) -> None:
        self._program = program
        self._begin_forward = begin_forward
        self._catch_up = catch_up
        """Tells of a step that ended where training could not be ended."""
        program.patches.wrap(torch.autograd, "_engine_run_backward", self._backward)

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        program = self._program

        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            state = program.threads.local.state
            self._catch_up()
            if program.watch.recording and not state.backward_depth:
                program.watch.end_setup()
                if kwargs.get("accumulate_grad"):  # not for `autograd.grad`
                    try:
                        with quiet():
                            program.losses.note(roots)
                    except Exception as error:  # noqa: BLE001 - watching must never end training
                        report_failure(error)
            base = state.backward_base
            state.backward_base = state.scope
            state.backward_depth += 1
            try:
                return original(roots, *args, **kwargs)
            finally:
                state.backward_depth -= 1
                state.backward_base = base
                if not state.backward_depth:
                    if ends_in_gradients(args, kwargs) and fake_mode() is None:
                        program.clock.backward_ended()
                    self._leave_backward(state)

        return run_backward

    def _leave_backward(self, state: ThreadState) -> None:
        program = self._program
        if program.kept is not None:
            program.kept.end_backward()
        loose = program.clock.awaits_forward
        if state.phase in (FORWARD, EVAL):
            state.phase = AWAITING_FORWARD if loose else AFTER_BACKWARD
            program.watch.end_backward()
        if loose and not self._sees_forward():
            self._begin_forward()

    def _sees_forward(self) -> bool:
        """Tell whether the differentiable operators of a forward will be seen."""
        return self._program.watch.recording and not levels_of_grad()

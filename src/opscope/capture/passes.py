"""Passes: the calls of the outermost module in a step, with what belongs to each.

A pass begins when an outermost module with parameters is called that was called in the pass before:
with the next micro-batch, the next batch of an evaluation, the next token. What has run since the
last backward is then part of it: it made the batch. Modules without parameters, such as losses, are
part of the pass they are called in.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

from opscope.calls import Calls
from opscope.capture.thread_state import ThreadState

_next_number = torch.autograd._get_sequence_nr


class CurrentPass:
    """The pass that is under way, in training or in evaluation."""

    __slots__ = ("modules", "number", "serial")

    def __init__(self, serial: int) -> None:
        self.serial = serial
        """Unlike that of any other pass of the run."""
        self.number = 0
        """Counted within the step."""
        self.modules: set[int] = set()


class Passes:
    """The passes of the step under way."""

    def __init__(self) -> None:
        self._serials = itertools.count()
        self.training = CurrentPass(next(self._serials))
        self.evaluation = CurrentPass(next(self._serials))
        self.first_serial = 0
        """That of the first pass of the step, in training."""
        self._since_backward: tuple[int, int] | None = None
        """The next call and the next autograd number as they were when a backward had ended."""

    def begin_step(self) -> None:
        """Begin the first pass of a step."""
        for one in (self.training, self.evaluation):
            one.serial = next(self._serials)
            one.number = 0
            one.modules.clear()
        self.first_serial = self.training.serial
        self._since_backward = None

    def end_backward(self, calls: int) -> None:
        """Note that a backward has ended after so many calls: call sites count anew from here."""
        self.training.serial = next(self._serials)
        self._since_backward = calls, _next_number()

    def enter(self, module: nn.Module, state: ThreadState, evaluates: bool, calls: Calls) -> bool:
        """An outermost module with parameters is called; returns whether a pass begins with it."""
        one = self.evaluation if evaluates else self.training
        begins = id(module) in one.modules
        if begins and evaluates:
            one.serial = next(self._serials)
            one.number += 1
            one.modules.clear()
        elif begins:
            self._begin_training(state, calls)
        one.modules.add(id(module))
        return begins

    def _begin_training(self, state: ThreadState, calls: Calls) -> None:
        one = self.training
        first, number = len(calls), _next_number()
        if self._since_backward is not None:
            first, number = self._since_backward
            if calls.passes and first <= calls.passes[-2]:  # other passes have gone on since
                first = len(calls)
        else:
            one.serial = next(self._serials)
        self._since_backward = None
        one.number += 1
        one.modules.clear()
        state.pass_starts += (number, one.serial, one.number)
        if first < len(calls):
            calls.passes.extend((first, one.number))

    def of_number(self, state: ThreadState | None, number: int) -> tuple[int, int]:
        """Serial and number of the pass whose forward made an autograd node in a thread."""
        starts = state.pass_starts if state is not None else []
        for at in range(len(starts) - 3, -1, -3):
            first, serial, place = starts[at : at + 3]
            if serial < self.first_serial:
                break
            if first <= number:
                return serial, place
        if starts and starts[-2] >= self.first_serial:
            return self.first_serial, 0  # it was before the second pass began
        return self.training.serial, self.training.number

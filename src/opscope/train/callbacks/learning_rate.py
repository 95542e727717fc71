"""`ReduceLROnPlateau` and `LearningRateScheduler`: callbacks that set the learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import Monitored
from opscope.train.run_context import RunContext


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` when `monitor` got no better for `patience` epochs.

    After that it waits `cooldown` epochs; the rate never falls below `min_lr`.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"factor = {factor}: must be between 0 and 1")
        self._monitored = Monitored(monitor, mode, min_delta, "ReduceLROnPlateau")
        self._factor = factor
        self._patience = patience
        self._verbose = verbose
        self._cooldown = cooldown
        self._min_lr = min_lr

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier training."""
        self._best = self._monitored.worst
        self._wait = self._cooling = 0

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare."""
        arguments = run_context.original_args()
        value = self._monitored.value(arguments)
        if value is None:
            return
        if self._cooling:
            self._cooling -= 1
            self._wait = 0
        if self._monitored.is_better(value, self._best):
            self._best, self._wait = value, 0
        elif not self._cooling:
            self._wait += 1
            if self._wait >= self._patience:
                self._reduce(arguments.optimizer, arguments.cur_epoch_num)
                self._cooling, self._wait = self._cooldown, 0

    def _reduce(self, optimizer: Any, epoch: int) -> None:
        for group in optimizer.param_groups:
            old = float(group["lr"])
            new = max(old * self._factor, self._min_lr)
            if new < old:
                set_rate(group, new)
                if self._verbose:
                    print(f"Epoch {epoch:05d}: learning rate {old:g} is now {new:g}", flush=True)


class LearningRateScheduler(Callback):
    """Sets the learning rate before each step to what a function of it and the step says."""

    def __init__(self, learning_rate_function: Callable[[float, int], float]) -> None:
        self._function = learning_rate_function

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Ask the function."""
        arguments = run_context.original_args()
        for group in arguments.optimizer.param_groups:
            set_rate(group, self._function(float(group["lr"]), arguments.cur_step_num))


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of a group of parameters, which may be a tensor."""
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = float(rate)

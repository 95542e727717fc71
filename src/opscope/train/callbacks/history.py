"""`History` and `LambdaCallback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import as_number
from opscope.train.run_context import RunContext


class History(Callback):
    """Keeps the last loss of each epoch, and the results of evaluations.

    `epoch` is `{"epoch": [1, 2]}`, `history` is `{"net_output": […], "accuracy": […]}`.
    """

    def __init__(self) -> None:
        self.epoch: dict[str, list[int]] = {"epoch": []}
        self.history: dict[str, list[Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier training."""
        self.epoch = {"epoch": []}
        self.history = {}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Note what the epoch has come to."""
        arguments = run_context.original_args()
        self.epoch["epoch"].append(arguments.cur_epoch_num)
        found = {"net_output": as_number(arguments.net_outputs)}
        for name, value in (found | (arguments.get("eval_results") or {})).items():
            self.history.setdefault(name, []).append(value)


class LambdaCallback(Callback):
    """Calls functions, given by the names of the methods they stand for."""

    def __init__(
        self,
        on_train_epoch_begin: Callable[[RunContext], Any] | None = None,
        on_train_epoch_end: Callable[[RunContext], Any] | None = None,
        on_train_step_begin: Callable[[RunContext], Any] | None = None,
        on_train_step_end: Callable[[RunContext], Any] | None = None,
        on_train_begin: Callable[[RunContext], Any] | None = None,
        on_train_end: Callable[[RunContext], Any] | None = None,
        on_eval_epoch_begin: Callable[[RunContext], Any] | None = None,
        on_eval_epoch_end: Callable[[RunContext], Any] | None = None,
        on_eval_step_begin: Callable[[RunContext], Any] | None = None,
        on_eval_step_end: Callable[[RunContext], Any] | None = None,
        on_eval_begin: Callable[[RunContext], Any] | None = None,
        on_eval_end: Callable[[RunContext], Any] | None = None,
    ) -> None:
        for name, function in list(locals().items()):
            if name.startswith("on_") and function is not None:
                setattr(self, name, function)

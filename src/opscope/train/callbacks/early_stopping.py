"""`EarlyStopping`: ends training when a number no longer gets better."""

from __future__ import annotations

from typing import Any

import torch

from opscope.capture.guards import quiet
from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import Monitored
from opscope.train.run_context import RunContext


class EarlyStopping(Callback):
    """Ends training when `monitor` got no better for `patience` epochs; 0 is like 1.

    With `baseline` it must get better than that at all. `restore_best_weights` ends with the
    weights of the best epoch.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: bool = False,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        self._monitored = Monitored(monitor, mode, min_delta, "EarlyStopping")
        self._patience = patience
        self._verbose = verbose
        self._baseline = baseline
        self._restores = restore_best_weights
        self.stopped_epoch = 0
        """The epoch that was the last; 0 if training was not ended here."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier training."""
        self._wait = 0
        self.stopped_epoch = 0
        self._best = self._monitored.worst
        self._weights: dict[str, Any] | None = None

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare."""
        arguments = run_context.original_args()
        value = self._monitored.value(arguments)
        if value is None:
            return
        self._wait += 1
        network = arguments.train_network
        if self._monitored.is_better(value, self._best):
            self._best = value
            if self._restores:
                self._weights = _copy(network.state_dict())
            if self._baseline is None or self._monitored.is_better(value, self._baseline):
                self._wait = 0
        if self._wait >= max(1, self._patience):
            self.stopped_epoch = arguments.cur_epoch_num
            run_context.request_stop()
            if self._weights is not None:
                network.load_state_dict(self._weights)

    def on_train_end(self, run_context: RunContext) -> None:
        """Say that it ended early."""
        if self._verbose and self.stopped_epoch:
            print(f"Epoch {self.stopped_epoch:05d}: early stopping", flush=True)


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    with quiet():  # this is no part of what is trained
        return {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in state.items()}

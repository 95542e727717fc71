"""`LossMonitor`: prints the loss, and ends training when it is not a number any more."""

from __future__ import annotations

import math

from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import as_number
from opscope.train.run_context import RunContext


class LossNotFiniteError(ValueError):
    """The loss of a step is NaN or Inf."""


class LossMonitor(Callback):
    """Prints the loss of every `per_print_times`-th step to stdout; 0 prints none.

    A loss that is NaN or Inf ends training with an error, printed or not.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        if not isinstance(per_print_times, int) or per_print_times < 0:
            raise ValueError(f"per_print_times = {per_print_times!r}: must be 0 or more")
        self._every = per_print_times

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Look at the loss."""
        arguments = run_context.original_args()
        due = self._every and arguments.cur_step_num % self._every == 0
        loss = as_number(arguments.net_outputs)
        place = f"epoch: {arguments.cur_epoch_num} step: {arguments.cur_step_in_epoch}"
        if not math.isfinite(loss):
            shown = "NaN" if math.isnan(loss) else "Inf"
            raise LossNotFiniteError(
                f"{place}, loss is {shown}: training cannot go on. "
                "`opscope run` on this script names the operator where it began"
            )
        if due:
            print(f"{place}, loss is {loss}", flush=True)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print what an evaluation found."""
        arguments = run_context.original_args()
        results = arguments.get("eval_results")
        if results and self._every:
            print(f"Eval result: epoch {arguments.cur_epoch_num}, metrics: {results}", flush=True)

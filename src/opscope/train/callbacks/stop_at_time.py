"""`StopAtTime`: ends training when its time is up."""

from __future__ import annotations

import time

from opscope.train.callback import Callback
from opscope.train.run_context import RunContext


class StopAtTime(Callback):
    """Ends training after the step in which `run_time` minutes have passed, and prints its loss."""

    def __init__(self, run_time: float) -> None:
        self._seconds = run_time * 60

    def on_train_begin(self, run_context: RunContext) -> None:
        """Start the clock."""
        run_context.original_args().init_time = time.time()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Look at the clock."""
        arguments = run_context.original_args()
        if time.time() - arguments.init_time > self._seconds:
            epoch, step = arguments.cur_epoch_num, arguments.cur_step_num
            print(f"epoch: {epoch} step: {step} loss: {arguments.net_outputs}", flush=True)
            run_context.request_stop()

"""`TimeMonitor`: how long epochs and steps take."""

from __future__ import annotations

import time

from opscope.train.callback import Callback
from opscope.train.run_context import RunContext


class TimeMonitor(Callback):
    """Prints the time of each epoch and of a step in it, to stdout.

    `data_size` is the number of steps to divide by, if not that of the epoch. `data_time` also
    prints how much of it was waiting for data.
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        if data_size is not None and data_size < 1:
            raise ValueError(f"data_size = {data_size}: must be at least 1")
        self._size = data_size
        self._shows_data = data_time
        self._clocks: dict[str, _Clock] = {}

    def epoch_begin(self, run_context: RunContext) -> None:
        """Start the clock; that of training runs on while an evaluation has its own."""
        self._clocks[run_context.original_args().mode] = _Clock()

    def step_begin(self, run_context: RunContext) -> None:
        """The batch is there."""
        clock = self._clocks[run_context.original_args().mode]
        clock.waited += time.perf_counter() - clock.ready

    def step_end(self, run_context: RunContext) -> None:
        """From here on it waits for the next batch."""
        clock = self._clocks[run_context.original_args().mode]
        clock.ready = clock.worked = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        """Say how long it took, without an evaluation that came after."""
        arguments = run_context.original_args()
        clock = self._clocks[arguments.mode]
        milliseconds = 1000 * (clock.worked - clock.begin)
        steps = self._size or arguments.get("cur_step_in_epoch", 1)
        title = "Train" if arguments.mode == "train" else "Eval"
        line = (
            f"{title} epoch time: {milliseconds:5.3f} ms, "
            f"per step time: {milliseconds / steps:5.3f} ms"
        )
        if self._shows_data:
            line += f", waiting for data: {1000 * clock.waited / steps:5.3f} ms per step"
        print(line, flush=True)


class _Clock:
    """The times of an epoch."""

    def __init__(self) -> None:
        self.begin = self.ready = self.worked = time.perf_counter()
        self.waited = 0.0

"""`OnRequestExit`: saves and leaves when the process is asked to end."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from opscope.messages import say, say_once
from opscope.train.callback import Callback
from opscope.train.checkpoints import save_checkpoint
from opscope.train.run_context import RunContext


class OnRequestExit(Callback):
    """On a signal, SIGTERM unless told, ends after the step under way and saves a checkpoint.

    It is `{file_name}-{epoch}_{step}.ckpt` in `directory`. A second signal does what it did before.
    """

    def __init__(
        self,
        save_ckpt: bool = True,
        file_name: str = "Net",
        directory: str = "./",
        sig: int = signal.SIGTERM,
    ) -> None:
        if sig not in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            raise ValueError(f"sig = {sig}: must be SIGTERM, SIGINT, SIGUSR1 or SIGUSR2")
        self._saves = save_ckpt
        self._name = file_name
        self._directory = Path(directory)
        self._signal = signal.Signals(sig)
        self._before: Any = None
        self._asked = self._installed = False

    def __enter__(self) -> OnRequestExit:
        if threading.current_thread() is threading.main_thread():
            self._asked, self._installed = False, True
            self._before = signal.signal(self._signal, self._ask)
        else:
            say_once("OnRequestExit hears no signals: training runs in another thread")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._installed:
            signal.signal(self._signal, self._before or signal.SIG_DFL)
            self._installed = False

    def _ask(self, number: int, frame: Any) -> None:
        self._asked = True
        signal.signal(self._signal, self._before or signal.SIG_DFL)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Leave if somebody asked for it."""
        if self._asked and not run_context.get_stop_requested():
            say(f"{self._signal.name}: training ends after this step")
            run_context.request_stop()

    def on_train_end(self, run_context: RunContext) -> None:
        """Save."""
        if not (self._asked and self._saves):
            return
        arguments = run_context.original_args()
        place = f"{arguments.cur_epoch_num}_{arguments.cur_step_in_epoch}"
        facts = {"epoch_num": arguments.cur_epoch_num, "step_num": arguments.cur_step_num}
        file = save_checkpoint(
            arguments.train_network,
            self._directory / f"{self._name}-{place}.ckpt",
            facts,
            arguments.optimizer,
        )
        say(f"saved {file}")

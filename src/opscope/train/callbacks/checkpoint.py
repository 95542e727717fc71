"""`ModelCheckpoint` and `CheckpointConfig`: checkpoints in the course of training."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.errors import OpscopeError
from opscope.logs import get_logger
from opscope.messages import say_once
from opscope.ranks import current_rank
from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import Monitored
from opscope.train.checkpoints import save_checkpoint
from opscope.train.run_context import Arguments, RunContext

_log = get_logger("train")


@dataclass(frozen=True)
class CheckpointConfig:
    """Rules for when checkpoints are saved and how many are kept; 0 or None switches a rule off.

    `monitor` also keeps the best one by a metric of `Model.fit`, as `{prefix}-best.ckpt`.
    """

    save_checkpoint_steps: int | None = 1
    save_checkpoint_seconds: float | None = 0
    keep_checkpoint_max: int | None = 5
    monitor: str = ""
    mode: str = "auto"
    save_optimizer: bool = True
    exception_save: bool = False
    """Also save one, `{prefix}-{epoch}_{step}_breakpoint.ckpt`, when training ends by an error."""


class ModelCheckpoint(Callback):
    """Saves `{prefix}-{epoch}_{step}.ckpt` in a directory as a `CheckpointConfig` says.

    Where files of this prefix are there already, `_1`, `_2` … is added to it. With several ranks
    rank 0 saves, unless `directory` holds `{rank}`.
    """

    def __init__(
        self,
        prefix: str = "CKP",
        directory: str | None = None,
        config: CheckpointConfig | None = None,
        **options: Any,
    ) -> None:
        if not prefix or "/" in prefix:
            raise ValueError(f"prefix = {prefix!r}: must be a name without /")
        self._config = config or CheckpointConfig(**options)
        self._prefix = prefix
        self._given = directory or "./"
        self._monitored: Monitored | None = None
        if self._config.monitor:
            self._monitored = Monitored(
                self._config.monitor, self._config.mode, 0, "ModelCheckpoint"
            )
        self._best = 0.0
        self._saved: list[Path] = []
        self._last = (0, 0.0)
        self._context: RunContext | None = None

    @property
    def latest_ckpt_file_name(self) -> str:
        """The checkpoint saved last."""
        return str(self._saved[-1]) if self._saved else ""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Find a name that is free."""
        self._context = run_context
        rank = current_rank()
        self._directory = Path(self._given.replace("{rank}", str(rank)))
        self._is_saving = rank == 0 or "{rank}" in self._given
        self._name = next(name for name in _names(self._prefix) if not self._is_taken(name))
        self._saved = []
        self._best = self._monitored.worst if self._monitored else 0.0
        self._last = run_context.original_args().cur_step_num, time.monotonic()

    def _is_taken(self, name: str) -> bool:
        return any(self._directory.glob(f"{name}-*_*.ckpt"))

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Save if it is time to."""
        arguments = run_context.original_args()
        step, moment = self._last
        steps, seconds = self._config.save_checkpoint_steps, self._config.save_checkpoint_seconds
        by_steps = steps and arguments.cur_step_num - step >= steps
        if seconds:
            by_steps = time.monotonic() - moment >= seconds
        if by_steps:
            self._save(arguments)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Keep the best one."""
        arguments = run_context.original_args()
        if self._monitored is None:
            return
        value = self._monitored.value(arguments)
        if value is not None and self._monitored.is_better(value, self._best):
            self._best = value
            self._write(arguments, f"{self._name}-best.ckpt", {self._config.monitor: value})

    def on_train_end(self, run_context: RunContext) -> None:
        """Save the last step, if it was not saved."""
        arguments = run_context.original_args()
        some = self._config.save_checkpoint_steps or self._config.save_checkpoint_seconds
        if some and arguments.cur_step_num != self._last[0]:
            self._save(arguments)
        self._context = None

    def __exit__(self, *exc: Any) -> None:
        if exc[0] is not None and self._context is not None and self._config.exception_save:
            arguments = self._context.original_args()
            if "net_outputs" in arguments:
                self._write(arguments, self._file_name(arguments, "_breakpoint"))
        self._context = None

    def _file_name(self, arguments: Arguments, ending: str = "") -> str:
        place = f"{arguments.cur_epoch_num}_{arguments.cur_step_in_epoch}"
        return f"{self._name}-{place}{ending}.ckpt"

    def _save(self, arguments: Arguments) -> None:
        self._last = arguments.cur_step_num, time.monotonic()
        path = self._write(arguments, self._file_name(arguments))
        if path is None:
            return
        self._saved.append(path)
        arguments.last_save_ckpt_step = arguments.cur_step_num
        arguments.latest_ckpt_file = str(path)
        most = self._config.keep_checkpoint_max
        while most and len(self._saved) > most:
            self._saved.pop(0).unlink(missing_ok=True)

    def _write(
        self, arguments: Arguments, name: str, more: dict[str, Any] | None = None
    ) -> Path | None:
        """Save; a disk that is full must not end training."""
        if not self._is_saving:
            return None
        path = self._directory / name
        facts = {"epoch_num": arguments.cur_epoch_num, "step_num": arguments.cur_step_num}
        optimizer = arguments.optimizer if self._config.save_optimizer else None
        try:
            save_checkpoint(arguments.train_network, path, facts | (more or {}), optimizer)
        except (OSError, OpscopeError) as error:
            say_once(f"ModelCheckpoint: {path} is not saved: {error}; training goes on")
            return None
        _log.info("saved %s", path)
        return path


def _names(prefix: str) -> Iterator[str]:
    yield prefix
    number = 0
    while True:
        number += 1
        yield f"{prefix}_{number}"

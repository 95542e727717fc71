"""Logs on the standard `logging` package, set by environment variables; see docs/logs.md.

What opscope says to the person (verdicts, notices) goes to stderr at any level, and into the log
file if there is one.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope import messages
from opscope.escapes import escaped
from opscope.ranks import current_rank
from opscope.settings.logs import LogSettings, read_log_settings

_ROOT = "opscope"
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_PACKAGE = Path(__file__).parent.parent
_lock = threading.Lock()
_settings: LogSettings | None = None


def get_logger(submodule: str = "") -> logging.Logger:
    """The logger of a part of opscope, or of all of it."""
    if _settings is None:
        configure()
    return logging.getLogger(f"{_ROOT}.{submodule}" if submodule else _ROOT)


def configure(environ: Mapping[str, str] | None = None) -> LogSettings:
    """Set levels and outputs as the environment says, once more if it was done before."""
    global _settings
    with _lock:
        _settings = settings = read_log_settings(os.environ if environ is None else environ)
        root = logging.getLogger(_ROOT)
        root.propagate = False
        root.setLevel(_LEVELS[settings.level])
        for handler in root.handlers[:]:
            root.removeHandler(handler)
            handler.close()
        for name in [n for n in logging.root.manager.loggerDict if n.startswith(f"{_ROOT}.")]:
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, level in settings.submodules.items():
            logging.getLogger(f"{_ROOT}.{name}").setLevel(_LEVELS[level])
        _add_handlers(root, settings)
    for notice in settings.notices:
        messages.say_once(notice)
    return settings


def _add_handlers(root: logging.Logger, settings: LogSettings) -> None:
    screen = _Screen()
    screen.setFormatter(LineFormatter())
    root.addHandler(screen)
    if settings.to_stderr:
        messages.on_say(lambda text: None)
        return
    screen.setLevel(_LEVELS[settings.stderr_level])
    files = _Files(settings)
    files.setFormatter(LineFormatter())
    root.addHandler(files)
    messages.on_say(lambda text: _keep(files, text))


def _keep(files: _Files, text: str) -> None:
    """Put what was said into the log file, as a line of the part that said it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] in (__name__, messages.__name__):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__", _ROOT))
    place = frame.f_code.co_filename, frame.f_lineno
    for line in text.splitlines():
        files.handle(logging.LogRecord(module, logging.INFO, *place, line, None, None))


class LineFormatter(logging.Formatter):
    """Lines as `[INFO] TRAIN(71:140,MainProcess):2026-11-15-07:40:10.027.000 [a.py:7] text`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, and the traceback if it has one."""
        micros = int(record.created * 1_000_000) % 1_000_000
        moment = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(record.created))
        line = (
            f"[{record.levelname}] {_submodule(record.name)}"
            f"({record.process}:{record.thread},{record.processName}):"
            f"{moment}.{micros // 1000:03d}.{micros % 1000:03d} "
            f"[{_place(record.pathname)}:{record.lineno}] {escaped(record.getMessage())}"
        )
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


def _submodule(name: str) -> str:
    """The part of opscope a record is of, in capitals."""
    parts = name.split(".")
    return (parts[1] if parts[0] == _ROOT and len(parts) > 1 else parts[0]).upper()


def _place(path: str) -> str:
    try:
        return str(Path(path).relative_to(_PACKAGE))
    except ValueError:
        return path


class _Screen(logging.Handler):
    """Writes to whatever stderr is by then."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a log line is not worth a training
            return


class _Files(logging.Handler):
    """`{directory}/rank_{rank}/logs/opscope.log.{pid}`, opened with the first line, and rotated."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings
        self._file: logging.handlers.RotatingFileHandler | None = None
        self._pid = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            file = self._open()
            if file.shouldRollover(record):
                file.doRollover()
            stream: Any = file.stream
            stream.write(f"{self.format(record)}\n")
            stream.flush()
        except Exception as error:  # noqa: BLE001 - a log line is not worth a training
            self._give_up(error)

    def _open(self) -> logging.handlers.RotatingFileHandler:
        if self._file is None or self._pid != os.getpid():  # a forked process has its own file
            folder = Path(self._settings.directory) / f"rank_{current_rank()}" / "logs"
            folder.mkdir(parents=True, exist_ok=True)
            self._pid = os.getpid()
            self._file = logging.handlers.RotatingFileHandler(
                folder / f"opscope.log.{self._pid}",
                maxBytes=self._settings.max_bytes,
                backupCount=self._settings.backups,
                encoding="utf-8",
            )
            self._file.setFormatter(self.formatter)
        return self._file

    def _give_up(self, error: Exception) -> None:
        messages.on_say(lambda text: None)
        logging.getLogger(_ROOT).removeHandler(self)
        messages.say_once(f"logs cannot be written to {self._settings.directory}: {error}")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self._pid == os.getpid():
            self._file.close()
        self._file = None
        super().close()

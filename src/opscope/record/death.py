"""Seeing to it that every end of this process is noted in the ring.

Native code notes signals before whoever handles them gets them, and the exit code; Python notes
exceptions and `os._exit`. What cannot be exported from inside is left to a witness: a process that
is started at the very end and reads the ring when this one is gone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from opscope.messages import say
from opscope.native import shared

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
UNHANDLED = ("SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGSYS")
"""These end a process only if nobody handles them; handled, they may come a thousand times."""
_NUMBERS = frozenset(int(getattr(signal, name)) for name in SIGNALS)
_UNHANDLED_NUMBERS = frozenset(int(getattr(signal, name)) for name in UNHANDLED)
STACKS_FILE = "stacks.txt"
_FOR_SERVERS = ("OPSCOPE_TOKEN", "OPSCOPE_CERTIFICATE")
"""Variables that sending a recording to a server needs."""


class DeathWatch:
    """Watches for the end of this process, from `begin` to `end`."""

    def __init__(self, writer: Any, directory: Path | None, hang_seconds: int) -> None:
        self._writer = writer
        self._directory = directory
        self._hang_seconds = hang_seconds
        self._pid = os.getpid()
        self._stacks: IO[bytes] | None = None
        self._stack_signal = 0
        self._undo: list[Callable[[], None]] = []
        self.on_thread_failure: Callable[[BaseException, str], None] = lambda error, thread: None

    @property
    def _is_native(self) -> bool:
        return hasattr(self._writer, "watch_signal")

    def begin(self) -> None:
        """Install everything."""
        self._open_stacks()
        self._prepare_witness()
        if self._is_native:
            for number in (*_NUMBERS, *filter(_is_free, _UNHANDLED_NUMBERS)):
                self._writer.watch_signal(number)
            self._writer.watch_exit()
            self._writer.watch_for_hang(self._hang_seconds)
            self._replace(signal, "signal", self._signal)
        self._replace(os, "_exit", self._exit)
        for name in ("execv", "execve"):  # the others call these
            self._replace(os, name, self._exec)
        self._replace(threading, "excepthook", self._thread_hook)

    def move(self, directory: Path) -> None:
        """Write to another folder from now on."""
        self._directory = directory
        self._prepare_witness()

    def _prepare_witness(self) -> None:
        if self._is_native and self._directory is not None:
            words = witness_words(self._directory)
            environment = [os.fsencode(f"{k}={v}") for k, v in witness_environment().items()]
            self._writer.prepare_witness(words, environment, self._stack_signal)

    def end(self) -> None:
        """Take everything off, but for what others have put on top."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        if self._stack_signal:
            faulthandler.unregister(self._stack_signal)
            self._stack_signal = 0
        if self._stacks is not None:
            self._stacks.close()
            self._stacks = None

    def leave_to_parent(self) -> None:
        """Undo what was replaced, in a forked child; handlers of signals only hand on."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def dump_stacks(self) -> None:
        """Write the stacks of all threads, as they are now."""
        if self._stacks is not None:
            self._stacks.seek(0)
            self._stacks.truncate()
            faulthandler.dump_traceback(self._stacks, all_threads=True)

    def _open_stacks(self) -> None:
        """Have a real-time signal write all stacks, also while the interpreter is stuck."""
        if self._directory is None:
            return
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._stacks = open(self._directory / STACKS_FILE, "w+b", buffering=0)  # noqa: SIM115
            free = next(
                (s for s in range(signal.SIGRTMAX - 2, signal.SIGRTMIN + 2, -1) if _is_free(s)), 0
            )
            if free:
                faulthandler.register(free, self._stacks, all_threads=True, chain=False)
                self._stack_signal = free

    @property
    def stack_signal(self) -> int:
        """The signal that has all stacks written; 0 for none."""
        return self._stack_signal

    def _replace(
        self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        original = getattr(owner, name)
        replacement = functools.wraps(original)(wrap(original))
        setattr(owner, name, replacement)

        def undo() -> None:
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _signal(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A handler that the script sets comes after ours."""

        def set_signal(number: int, handler: Any) -> Any:
            before = original(number, handler)
            ends = number in _NUMBERS or (number in _UNHANDLED_NUMBERS and _is_free(number))
            if ends and os.getpid() == self._pid:
                self._writer.watch_signal(int(number))
            return before

        return set_signal

    def _exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _exit(status: int) -> Any:
            if os.getpid() == self._pid and isinstance(status, int):
                self._leave(status)
            return original(status)

        return _exit

    def _exec(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Another program takes the place of this one: nothing of it is seen."""

        def exec(path: Any, *args: Any) -> Any:
            if os.getpid() == self._pid and _can_run(path):
                name = Path(os.fsdecode(path)).name
                say(f"the script replaces itself by another program ({name}): that is not watched")
                self._leave(0, name[:31])
            return original(path, *args)

        return exec

    def _leave(self, status: int, program: str = "") -> None:
        """Nothing of Python will run any more: have others export."""
        self._writer.mark(shared.MARKER_FAST_EXIT, status, program)
        self.dump_stacks()
        if self._is_native:
            self._writer.call_witness()

    def _thread_hook(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def excepthook(args: Any) -> Any:
            if os.getpid() == self._pid and args.exc_type is not SystemExit:
                thread = args.thread.name if args.thread is not None else "a thread"
                self.on_thread_failure(args.exc_value, thread)
            return original(args)

        return excepthook


def _can_run(path: Any) -> bool:
    try:
        return os.access(path, os.X_OK)
    except (TypeError, ValueError):  # which the call itself will complain of
        return False


def _is_free(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_DFL


def witness_words(directory: Path) -> list[bytes]:
    """The command line of the process that exports what this one cannot."""
    words = [sys.executable, "-m", "opscope.record.witness", str(directory), str(os.getpid())]
    return [os.fsencode(word) for word in words]


def witness_environment() -> dict[str, str]:
    """It neither watches itself nor takes part in the training."""
    ours = ("OPSCOPE_", "MINDSPORE_", "MS_", "ENABLE_MS_", "LD_PRELOAD", "CUDA_", "PYTHONPROFILE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) or name in _FOR_SERVERS
    }
    path = str(Path(__file__).parents[2])
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": found, "OPSCOPE_DISABLE": "1"}

"""Locks on files, which the system frees when their holder is gone, even after `kill -9`."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from opscope.regular import open_regular

_BUSY = (errno.EWOULDBLOCK, errno.EACCES)
_PAUSE_S = 0.01

_owned: set[int] = set()


def own(descriptor: int) -> int:
    """Have this descriptor closed in children that are forked from now on, such as a lock."""
    _owned.add(descriptor)
    return descriptor


def close(descriptor: int) -> None:
    """Close an owned descriptor, once."""
    if descriptor in _owned:
        _owned.discard(descriptor)
        os.close(descriptor)


def _close_in_child() -> None:
    while _owned:
        with contextlib.suppress(OSError):
            os.close(_owned.pop())


os.register_at_fork(after_in_child=_close_in_child)


class FileLock:
    """A file to lock; once taken, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.descriptor = own(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        self._pid = os.getpid()

    def take(self, patience_s: float | None = None) -> bool:
        """Lock it; False if another holds it for so long. OSError where no file can be locked."""
        return _lock(self.descriptor, fcntl.LOCK_EX, patience_s)

    def release(self) -> None:
        """Let go; in a forked child, where the descriptor may be another's by now, do nothing."""
        if self._pid == os.getpid():
            close(self.descriptor)


def is_held(path: Path, patience_s: float = 0, unknown: bool = True) -> bool:
    """Tell whether a process holds the lock for so long; `unknown` where nobody can tell."""
    try:
        descriptor = open_regular(path)
    except OSError:  # it is not there, or nothing that a holder has made
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH, patience_s)
    except OSError:
        return unknown
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def one_at_a_time(path: Path, patience_s: float | None = None) -> Iterator[None]:
    """Lock a file or directory, or go on without after so long and where that is not possible."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            _lock(descriptor, fcntl.LOCK_EX, patience_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int, patience_s: float | None) -> bool:
    """Lock, waiting as long as it takes if no patience is given."""
    if patience_s is None:
        fcntl.flock(descriptor, kind)
        return True
    give_up = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in _BUSY:
                raise
        if time.monotonic() >= give_up:
            return False
        time.sleep(_PAUSE_S)

"""A lock that a living rank holds: how others know that it is alive, even after `kill -9`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from opscope.messages import say_once
from opscope.regular import open_regular


class RankLock:
    """Held from creation until `close` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            say_once(f"{path} cannot be locked ({error.strerror}); the run will look alive")

    def close(self) -> None:
        """Let go; a forked child lets go of its copy only."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; also true where the file system cannot tell."""
    try:
        file = open_regular(path)
    except OSError:  # it is not there, or nothing that a rank has made
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)

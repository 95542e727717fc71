"""Starting the process that writes, and hearing from it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from opscope import locks
from opscope.dump.transport.memory import SharedMemory, create
from opscope.dump.transport.writer import WriterError, WritingEnd

_BOOT = """
import os, sys
if os.fork(): os._exit(0)
import contextlib
import json
settings = json.loads(sys.argv[1])
sys.path[:] = [each for each in sys.path if each] + settings["path"]
from opscope.dump.transport.worker import main
main(settings)
"""
_ENVIRONMENT = {"OPSCOPE_DISABLE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_NOT_INHERITED = ("OPSCOPE_", "MINDSPORE_", "MS_")
_INHERITED = ("OPSCOPE_NATIVE",)


class WriterProcess:
    """The training process's end of the process that writes.

    That process is nobody's child and in a session of its own: it never shows up among the
    script's children, and signals from the terminal do not reach it. It ends when its bell does,
    after it has written everything that was published, even if the training process is killed.
    """

    def __init__(self, store_settings: dict[str, Any], limit: int, lock: int) -> None:
        descriptor = create(limit)
        self.memory = SharedMemory(descriptor, limit)
        bell, self.bell = os.pipe()
        self._replies, reply = os.pipe()
        ends = {"memory": descriptor, "limit": limit, "bell": bell, "reply": reply, "lock": lock}
        try:
            _start(store_settings | ends, (descriptor, bell, reply, lock))
        except BaseException:
            os.close(self.bell)
            os.close(self._replies)
            raise
        finally:
            for each in (descriptor, bell, reply):
                os.close(each)
        locks.own(self.bell)
        locks.own(self._replies)
        self._heard = b""
        self._ended = False

    def outcome(self, timeout: float) -> WritingEnd | None:
        """Return how it ended, when it has; None when it has not after so many seconds."""
        due = time.monotonic() + timeout
        while not self._ended:
            if not self._listen(max(due - time.monotonic(), 0)):
                return None
        locks.close(self._replies)
        said = self._said("outcome")
        if said is None:
            raise WriterError(self._said("failure") or self._last_words())
        return WritingEnd(*said)

    def failure(self) -> str:
        """Return why it has failed."""
        while not self._ended and self._said("failure") is None:
            self._listen(None)
        return self._said("failure") or self._last_words()

    def check_alive(self) -> None:
        """Raise if it is gone."""
        while self._listen(0):
            if self._ended:
                raise WriterError(self._said("failure") or self._last_words())

    def hang_up(self) -> None:
        """Publish nothing more: it ends when it has read everything."""
        locks.close(self.bell)

    def _listen(self, timeout: float | None) -> bool:
        """Hear what it says; False if it said nothing in this time."""
        listener = select.poll()
        listener.register(self._replies, select.POLLIN)
        if not listener.poll(None if timeout is None else timeout * 1000):
            return False
        news = os.read(self._replies, 65536)
        self._heard += news
        self._ended = not news
        return True

    def _said(self, key: str) -> Any:
        """Return what it said under this key, in its last line that has it."""
        complete = self._heard.rpartition(b"\n")[0]
        for line in reversed(complete.splitlines()):
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and key in said:
                    return said[key]
        return None

    def _last_words(self) -> str:
        lines = self._heard.decode(errors="replace").strip().splitlines()
        return f"the process that writes it ended ({lines[-1] if lines else 'without a word'})"


def _start(settings: dict[str, Any], descriptors: tuple[int, ...]) -> None:
    roots = [str(Path(__file__).parents[3]), str(Path(np.__file__).parents[1])]
    subprocess.run(
        [sys.executable, "-c", _BOOT, json.dumps(settings | {"path": roots})],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=settings["reply"],
        env=_environment(),
        cwd="/",
        start_new_session=True,
        check=True,
    )


def _environment() -> dict[str, str]:
    """The environment without what would make opscope act on its import."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_INHERITED)}
    native = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    return kept | native | _ENVIRONMENT

"""What waits to be written: a queue whose memory has a bound, and values kept to be shared."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Protocol

from opscope.dump.npy import Array

DEFAULT_LIMIT = 512 * 2**20
_BATCH = 64


class Held:
    """A value in memory until every job that needs it is done."""

    __slots__ = ("array", "kept", "nbytes", "raw", "users")

    def __init__(self, array: Array | None, raw: Array | None, nbytes: int) -> None:
        self.array = array
        self.raw = raw
        self.nbytes = nbytes
        self.users = 1
        self.kept = False


class Job(Protocol):
    """One piece of writing."""

    held: Held

    def run(self) -> None:
        """Do it; OSError when the file system refuses."""


class Pending:
    """Jobs in order. Memory counts from `admit` until the last user of a value is done."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self.added = 0
        self.finished = 0
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._kept: dict[Hashable, Held] = {}
        self._open = True

    def find(self, key: Hashable) -> Held | None:
        """The value kept under this key, with one more user."""
        with self._changed:
            held = self._kept.get(key)
            if held is not None:
                held.users += 1
            return held

    def admit(self, nbytes: int) -> bool:
        """Wait until there is room; one value is always admitted. False if nothing is any more."""
        with self._changed:
            while self._open and self.used and self.used + nbytes > self.limit:
                if not self._evict():
                    self._changed.wait(1.0)
            self.used += nbytes
            self.peak = max(self.peak, self.used)
            return self._open

    def keep(self, key: Hashable, held: Held) -> None:
        """Let later users find this value, until `forget` or until its room is needed."""
        with self._changed:
            old = self._kept.pop(key, None)
            if old is not None:
                self._drop(old)
            self._kept[key] = held
            held.kept = True

    def forget(self) -> None:
        """Stop keeping values."""
        with self._changed:
            kept, self._kept = self._kept, {}
            for held in kept.values():
                self._drop(held)

    def put(self, job: Job) -> None:
        """Add a job whose value has been admitted or found."""
        with self._changed:
            if not self._open:
                self._release(job.held)
                return
            self._jobs.append(job)
            self.added += 1
            if len(self._jobs) == 1:
                self._changed.notify_all()

    def take(self) -> list[Job]:
        """The next jobs; waits for one. Empty when there will be no more."""
        with self._changed:
            while self._open and not self._jobs:
                self._changed.wait()
            return [self._jobs.popleft() for _ in range(min(_BATCH, len(self._jobs)))]

    def done(self, job: Job) -> None:
        """A job that was taken has been run."""
        with self._changed:
            self.finished += 1
            self._release(job.held)
            self._changed.notify_all()

    def wait_until_done(self, timeout: float) -> bool:
        """Wait for every job that was put; whether that came to pass."""
        with self._changed:
            return self._changed.wait_for(lambda: self.finished >= self.added, timeout)

    def close(self) -> int:
        """Admit nothing more and give up what is not yet taken; returns how many jobs that is."""
        with self._changed:
            self._open = False
            lost = len(self._jobs)
            self._jobs.clear()
            self.finished += lost
            self._changed.notify_all()
        self.forget()
        return lost

    def _evict(self) -> bool:
        """Stop keeping the oldest value that no job waits for."""
        for key, held in self._kept.items():
            if not held.users:
                del self._kept[key]
                self._drop(held)
                return True
        return False

    def _release(self, held: Held) -> None:
        held.users -= 1
        self._free(held)

    def _drop(self, held: Held) -> None:
        held.kept = False
        self._free(held)

    def _free(self, held: Held) -> None:
        if not held.users and not held.kept:
            self.used -= held.nbytes
            held.array = held.raw = None

"""Several writes at once, for values so large that writing them takes longer than handing it on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

LARGE = 128 * 1024
_THREADS = min(4, os.cpu_count() or 1)


class ParallelWrites:
    """Writes under way, in the order of their jobs."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS)
        self._running: deque[tuple[int, Future[None]]] = deque()

    def begin(self, job: int, write: Callable[[], None]) -> Future[None]:
        """Begin a write."""
        future = self._pool.submit(write)
        self._running.append((job, future))
        return future

    def done_until(self, job: int) -> int:
        """The job up to which everything is done, when `job` is the last that was begun."""
        while self._running and self._running[0][1].done():
            self._running.popleft()[1].result()
        return self._running[0][0] - 1 if self._running else job

    def wait(self, tell: Callable[[int], None]) -> None:
        """Wait for every write, telling of each job as it is done."""
        while self._running:
            job, future = self._running.popleft()
            future.result()
            tell(job)

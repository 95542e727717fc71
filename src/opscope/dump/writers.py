"""Who runs the jobs: the training thread at once, or a thread in the background."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from opscope.dump.npy import dense, dense_copy
from opscope.dump.pending import DEFAULT_LIMIT, Held, Job, Pending
from opscope.dump.values import Reading
from opscope.messages import say

_QUIET_S, _REPORT_EVERY_S = 1.0, 5.0


class Writer(Protocol):
    """Takes values and jobs, in order. `lost` counts the jobs that were given up."""

    lost: int
    shares: bool
    """Whether `find` ever finds anything."""

    def find(self, key: Hashable) -> Held | None:
        """A value that was held under this key in this step."""

    def hold(self, key: Hashable, reading: Reading) -> Held | None:
        """Hold a value until its jobs are done; None when nothing is written any more."""

    def reserve(self, nbytes: int) -> Held | None:
        """Room for a job that has no array."""

    def submit(self, job: Job) -> None:
        """Run a job, now or later."""

    def step_over(self) -> None:
        """Values of this step are not looked for any more."""

    def close(self) -> None:
        """Return when every job has been run."""


class DirectWriter:
    """Runs each job before `submit` returns."""

    shares = False

    def __init__(self, after: Callable[[], None]) -> None:
        self.lost = 0
        self._after = after
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Held | None:
        return None

    def hold(self, key: Hashable, reading: Reading) -> Held | None:
        return Held(dense(reading.array), reading.raw, 0)

    def reserve(self, nbytes: int) -> Held | None:
        return Held(None, None, 0)

    def submit(self, job: Job) -> None:
        with self._lock:
            self.lost += 1
            job.run()
            self._after()
            self.lost -= 1

    def step_over(self) -> None:
        pass

    def close(self) -> None:
        pass


class BackgroundWriter:
    """Copies values and runs the jobs on a thread of its own."""

    shares = True

    def __init__(
        self,
        after: Callable[[], None],
        on_error: Callable[[Exception], None],
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.lost = 0
        self.pending = Pending(limit)
        self._after = after
        self._on_error = on_error
        self._thread = threading.Thread(target=self._work, name="opscope-dump", daemon=True)
        self._thread.start()

    def find(self, key: Hashable) -> Held | None:
        return None if key is None else self.pending.find(key)

    def hold(self, key: Hashable, reading: Reading) -> Held | None:
        if not self.pending.admit(reading.nbytes):
            return None
        array = dense_copy(reading.array) if reading.borrowed else dense(reading.array)
        held = Held(array, reading.raw, reading.nbytes)
        if key is not None:
            self.pending.keep(key, held)
        return held

    def reserve(self, nbytes: int) -> Held | None:
        return Held(None, None, nbytes) if self.pending.admit(nbytes) else None

    def submit(self, job: Job) -> None:
        self.pending.put(job)

    def step_over(self) -> None:
        self.pending.forget()

    def close(self) -> None:
        if not self.pending.wait_until_done(_QUIET_S):
            self._report_until_done()
        self._stop()
        self._thread.join()

    def _stop(self) -> None:
        self.lost += self.pending.close()

    def _report_until_done(self) -> None:
        finished = False
        while not finished:
            say(f"writing dump: {self.pending.finished} of {self.pending.added} files")
            finished = self.pending.wait_until_done(_REPORT_EVERY_S)

    def _work(self) -> None:
        while jobs := self.pending.take():
            self._run(jobs)

    def _run(self, jobs: list[Job]) -> None:
        waiting = deque(jobs)
        try:
            while waiting:
                waiting[0].run()
                self.pending.done(waiting.popleft())
            self._after()
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            self.lost += len(waiting)
            self._stop()
            self._on_error(error)
        for job in waiting:
            self.pending.done(job)

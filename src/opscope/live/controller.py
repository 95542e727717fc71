"""Decides when the training thread holds, and until when."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from opscope.errors import OpscopeError
from opscope.messages import say

RUNNING, PAUSED, WAITING, ENDED = "running", "paused", "waiting", "ended"
_LOOK_S = 0.5
"""The interval at which a held training looks whether anybody is still there."""


class HoldingPlace(NamedTuple):
    """A node where training stands."""

    node: int
    name: str
    call: int
    where: str = ""
    """Its line, as `file:line`."""


class TrainingState(NamedTuple):
    """The state of training: where it stands, and why."""

    state: str
    reason: str
    step: int
    place: HoldingPlace | None
    hit: dict[str, Any] | None = None


@dataclass(frozen=True)
class NextHold:
    """The next occasion to hold."""

    at_boundary: bool = False
    until_step: int | None = None
    """Hold when this step has ended."""
    at_next_node: bool = False
    at_node: str = ""
    """Hold when this node has run, or at the end of the step if it did not."""
    terminate: bool = False

    @property
    def looks_at_nodes(self) -> bool:
        """True if operators must be looked at one by one."""
        return self.at_next_node or bool(self.at_node)

    def holds_soon_after(self, step: int) -> bool:
        """Tell whether training will hold when this step has ended, or in or after the next two.

        The last step before a hold can then be compared with the one before: each has used what the
        step before it has left.
        """
        planned = self.until_step is not None and step >= self.until_step - 2
        return planned or self.at_boundary or self.looks_at_nodes


class Controller:
    """Holds the training thread when asked to, and has it do what must be done there.

    `armed` is all that the training thread looks at while nobody wants anything.
    """

    def __init__(self, patience_s: float = 600.0) -> None:
        self.armed = False
        self.patience_s = patience_s
        """The time a hold lasts after the last sign of anybody."""
        self.on_change: Callable[[TrainingState], None] = lambda status: None
        """Called in the training thread when the status changes."""
        self.guard: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Makes the block that keeps what is done in it from being part of training."""
        self.on_plan: Callable[[], None] = lambda: None
        """Called in the training thread when it must look at other nodes than before."""
        self._changed = threading.Condition()
        self._next_hold = NextHold()
        self._released = False
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._status = TrainingState(RUNNING, "", 0, None)
        self._last_sign = time.monotonic()
        self._connected = False
        self._watchers = 0
        self._visited = False

    # ------------------------------------------------------------------ asked from other threads

    @property
    def status(self) -> TrainingState:
        """The state of training: where it stands, and why."""
        return self._status

    @property
    def next_hold(self) -> NextHold:
        """The next occasion to hold."""
        return self._next_hold

    @property
    def someone_looks(self) -> bool:
        """True if a person is there who could answer."""
        return self._connected and self._watchers > 0

    @property
    def is_visited(self) -> bool:
        """True if anybody looks, or has asked something since nobody does."""
        return self._visited

    def set_presence(self, connected: bool, watchers: int) -> None:
        """Note whether a server is connected, and how many look at this training through it."""
        with self._changed:
            self._connected, self._watchers = connected, watchers
            if connected and watchers:
                self._last_sign = time.monotonic()
        self._visit(connected and watchers > 0)

    def sign(self) -> None:
        """Note that somebody has asked something, so somebody is there."""
        self._last_sign = time.monotonic()
        self._visit(True)

    def _visit(self, visited: bool) -> None:
        if visited != self._visited:
            self._visited = visited
            self._look_anew()

    def pause(self) -> None:
        """Hold at the end of the step under way."""
        self._set(NextHold(at_boundary=True))

    def go_on(self) -> None:
        """Run until a hit or the end."""
        self._set(NextHold(), release=True)

    def run_steps(self, count: int) -> None:
        """Run so many steps, then hold."""
        if count < 1:
            raise OpscopeError(f"{count} steps: must be at least 1")
        self.run_until(self._next_step() + count - 1)

    def run_until(self, step: int) -> None:
        """Run until this step has ended, then hold."""
        self._set(NextHold(until_step=step), release=True)

    def next_node(self) -> None:
        """Run one operator, then hold."""
        self._set(NextHold(at_next_node=True), release=True)

    def run_to(self, node: str) -> None:
        """Run until this node has run, or the step has ended; then hold."""
        self._set(NextHold(at_node=node), release=True)

    def terminate(self) -> None:
        """End training at the next point where that is possible."""
        self._set(NextHold(terminate=True), release=True)

    def in_training(self, job: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Have the training thread do something, at once if it holds or when the step ends."""
        future: Future[Any] = Future()
        with self._changed:
            if self._status.state == ENDED:
                raise OpscopeError("training has ended")
            self._jobs.append((job, future))
            self.armed = True
            self._changed.notify_all()
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise OpscopeError(
                f"training did not come to a step's end for {timeout_s:g} s"
            ) from None

    def end(self) -> None:
        """Note that training is over, and let nobody wait for it."""
        with self._changed:
            self._status = self._status._replace(state=ENDED, place=None)
            while self._jobs:
                self._jobs.popleft()[1].cancel()
        self.on_change(self._status)

    # ------------------------------------------------------------------ in the training thread

    def boundary(self, step: int, before_update: bool) -> bool:
        """A point where training may hold or end; True if it is to end."""
        if not before_update:
            self._status = self._status._replace(step=step + 1)
        if not self.armed:
            return False
        self._do_jobs()
        next_hold = self._next_hold
        if next_hold.terminate:
            return True
        if before_update:
            return False
        if next_hold.at_boundary:
            self.hold_for_person("asked to", step)
        elif next_hold.until_step is not None and step >= next_hold.until_step:
            self.hold_for_person(f"step {step} has ended", step)
        elif next_hold.looks_at_nodes:
            missed = f": {next_hold.at_node} did not run" if next_hold.at_node else ""
            self.hold_for_person(f"step {step} has ended{missed}", step)
        return self._next_hold.terminate

    def at_node(self, step: int, place: HoldingPlace) -> None:
        """Hold if this operator, which has just run, is where to hold."""
        next_hold = self._next_hold
        if next_hold.at_next_node or (next_hold.at_node and next_hold.at_node == place.name):
            self.hold_for_person("node", step, place)

    def hold_for_person(
        self, reason: str, step: int, place: HoldingPlace | None = None, state: str = PAUSED
    ) -> None:
        """Hold because a person wanted so; without anybody for too long, training goes on."""
        if not self.hold(reason, step, place, state):
            say(f"nobody was there for {self.patience_s:g} s: training goes on")

    def hold(
        self,
        reason: str,
        step: int,
        place: HoldingPlace | None = None,
        state: str = PAUSED,
        hit: dict[str, Any] | None = None,
    ) -> bool:
        """Hold until told to go on; False if nobody was there to do so for too long."""
        with self._changed:
            self._next_hold = NextHold()
            self._released = False
            self._last_sign = time.monotonic()
            self._status = TrainingState(state, reason, step, place, hit)
        self.on_change(self._status)
        answered = self._wait()
        with self._changed:
            if not answered:
                self._status = TrainingState(RUNNING, "", self._next_step(), None)
            self.armed = self._next_hold != NextHold() or bool(self._jobs)
        self.on_plan()
        self.on_change(self._status)
        return answered

    def _wait(self) -> bool:
        while True:
            self._do_jobs()
            with self._changed:
                if self._released:
                    return True
                if time.monotonic() - self._last_sign > self.patience_s:
                    return False
                if not self._jobs:
                    self._changed.wait(_LOOK_S)
                if self._connected and self._watchers:
                    self._last_sign = time.monotonic()

    def _do_jobs(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self.armed = self._next_hold != NextHold() or self._status.state != RUNNING
                    return
                job, future = self._jobs.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                with self.guard():
                    future.set_result(job())
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                future.set_exception(error)

    def _next_step(self) -> int:
        """The step that runs next, or is under way."""
        status = self._status
        held_at_end = status.state == PAUSED and status.place is None and status.hit is None
        return status.step + 1 if held_at_end else status.step

    def _set(self, next_hold: NextHold, release: bool = False) -> None:
        with self._changed:
            if self._status.state == ENDED:
                raise OpscopeError("training has ended")
            held = self._status.state in (PAUSED, WAITING)
            if next_hold.at_boundary and held:
                return
            before, self._next_hold = self._next_hold, next_hold
            self._released = release and held
            if self._released:
                self._status = TrainingState(RUNNING, "", self._next_step(), None)
            self._last_sign = time.monotonic()
            self.armed = True
            self._changed.notify_all()
        if not held and next_hold.looks_at_nodes != before.looks_at_nodes:
            self._look_anew()

    def _look_anew(self) -> None:
        """Have the training thread ask for other nodes, when it comes to a step's end."""
        with self._changed:
            if self._status.state != ENDED:
                self._jobs.append((self.on_plan, Future()))
                self.armed = True
                self._changed.notify_all()

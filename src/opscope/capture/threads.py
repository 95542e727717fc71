"""Every thread's state."""

from __future__ import annotations

import threading
from collections.abc import Callable

from opscope.capture.scopes import Scope
from opscope.capture.thread_state import FORWARD, SETUP, ThreadState
from opscope.events import Node
from opscope.names import ROOT


class _Local(threading.local):
    """Makes a thread's state at its first use in that thread."""

    def __init__(self, threads: Threads) -> None:
        self.state = threads.new_state()


class Threads:
    """The states of all threads. Those of threads that ended are kept until the step ends."""

    def __init__(self) -> None:
        self.root = Scope(ROOT, None, "")
        self.many = False
        """True if operators may run in several threads at once."""
        self.on_many: Callable[[], None] = lambda: None
        """Called when that may have changed."""
        self._lock = threading.Lock()
        self._states: list[ThreadState] = []
        self._in_setup = True
        self.local = _Local(self)

    def new_state(self) -> ThreadState:
        """Make a state for the calling thread."""
        state = ThreadState(self.root)
        state.phase = SETUP if self._in_setup else FORWARD
        with self._lock:
            self._states.append(state)
        return state

    def admit(self, state: ThreadState) -> None:
        """Prepare the state of a thread that runs its first operator."""
        with self._lock:
            state.admitted = True
            self._settle()

    def _settle(self) -> None:
        """Find out whether one thread runs forward, and one at most runs backward for it."""
        active = [state for state in self._states if state.admitted]
        python = [state for state in active if not state.autograd]
        self.many = len(python) > 1 or len(active) - len(python) > 1
        for state in active:
            state.home = None if self.many or not python else python[0]
        self.on_many()

    def leave_setup(self) -> None:
        """Move every thread that was setting up to forward, since training starts."""
        self._in_setup = False
        for state in list(self._states):
            if state.phase == SETUP:
                state.phase = FORWARD

    def node_for(self, number: int, name: str, state: ThreadState) -> Node | None:
        """The forward node behind an autograd node.

        Numbers count per thread, so several threads may have made the same one: then the names
        decide, and among equals the thread that runs backward, unless it is autograd's own.
        """
        states = sorted(self._states, key=lambda other: other is not state or other.autograd)
        found = (other.node_for(number) for other in states)
        candidates = [node for node in found if node is not None]
        if len(candidates) > 1:
            wanted = name.partition("Backward")[0].lower()
            for node in candidates:
                if node.op_type.replace("_", "") == wanted:
                    return node
        return candidates[0] if candidates else None

    def end_step(self) -> None:
        """Let go of threads that ended and of autograd numbers from long ago."""
        with self._lock:
            living = threading._active  # type: ignore[attr-defined]
            kept = [s for s in self._states if s.autograd or s.ident in living]
            if len(kept) < len(self._states):
                self._states = kept
                self._settle()
        for state in kept:
            state.forget_old_numbers()
            state.pass_starts.clear()

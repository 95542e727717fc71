"""Every thread's state, and putting the dispatch mode on and off a thread's mode stack."""

from __future__ import annotations

import heapq
import threading
import weakref
from typing import Any

from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from opscope.capture.scopes import ROOT, Scope
from opscope.capture.thread_state import FORWARD, SETUP, Site, ThreadState
from opscope.events import Node


class _Local(threading.local):
    """Makes a thread's state at its first use in that thread."""

    def __init__(self, threads: Threads) -> None:
        self.state = threads.new_state()


class Threads:
    """The states of all threads. A thread that ended leaves its ordinal to the next one."""

    def __init__(self) -> None:
        self.root = Scope(ROOT, None, "")
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._sites: list[dict[tuple[object, ...], Site]] = []
        self._states: weakref.WeakSet[ThreadState] = weakref.WeakSet()
        self._in_setup = True
        self.local = _Local(self)

    def new_state(self) -> ThreadState:
        """A state for the calling thread."""
        with self._lock:
            if self._free:
                ordinal = heapq.heappop(self._free)
            else:
                ordinal = len(self._sites)
                self._sites.append({})
            state = ThreadState(ordinal, self.root, self._sites[ordinal])
            state.phase = SETUP if self._in_setup else FORWARD
            self._states.add(state)
        weakref.finalize(state, self._release, ordinal)
        return state

    def _release(self, ordinal: int) -> None:
        with self._lock:
            heapq.heappush(self._free, ordinal)

    def leave_setup(self) -> None:
        """Training starts: every thread that was setting up is in forward now."""
        self._in_setup = False
        for state in list(self._states):
            if state.phase == SETUP:
                state.phase = FORWARD

    def node_for(self, number: int, autograd_node: Any, state: ThreadState) -> Node | None:
        """The forward node behind an autograd node.

        Numbers count per thread, so the same number may exist in several; the thread that runs
        backward is right unless it is one of autograd's own, and the names decide the rest.
        """
        own = state.node_for(number)
        if own is not None and not state.autograd:
            return own
        candidates = [own] if own is not None else []
        others = sorted(self._states, key=lambda s: s.ordinal)
        found = (other.node_for(number) for other in others if other is not state)
        candidates += [node for node in found if node is not None]
        if len(candidates) > 1:
            name = autograd_node.name().partition("Backward")[0].lower()
            for node in candidates:
                if node.op_type.replace("_", "") == name:
                    return node
        return candidates[0] if candidates else None

    def forget_old_numbers(self) -> None:
        """Let go of autograd numbers from long ago."""
        for state in list(self._states):
            state.forget_old_numbers()


def push(mode: TorchDispatchMode) -> None:
    """Put `mode` under all others of this thread, so that the user's pop off before it."""
    others = _unwind()
    _push_mode(mode)
    _rewind(others)


def remove(mode: TorchDispatchMode) -> None:
    """Take `mode` out of this thread's stack, wherever it is."""
    _rewind([other for other in _unwind() if other is not mode])


def _unwind() -> list[TorchDispatchMode]:
    """Empty this thread's mode stack; outermost first."""
    stack: list[TorchDispatchMode] = _get_current_dispatch_mode_stack()
    for mode in reversed(stack):
        _pop_mode(getattr(mode, "_mode_key", None))
    return stack


def _rewind(modes: list[TorchDispatchMode]) -> None:
    for mode in modes:
        _push_mode(mode)

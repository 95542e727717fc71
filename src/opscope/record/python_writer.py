"""Records without native code: one for each call of a module, not for its operators.

A mode that sees operators from Python may change what they compute, and costs as much as small
operators themselves; a recorder that is always on must do neither.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable

from opscope.native import shared
from opscope.record.ring import Ring

_RECORD = struct.Struct("<QQQIIIIIIiIQQQIHHBBBBb")
_AT = {name: at for name, (_, at) in shared.RING_RECORD.items()}
_MARKER = struct.Struct("<IiiiQQ32s")
MODULE = "nn.Module"
"""The name that module calls have in place of an operator's."""


class _ThreadCalls(threading.local):
    def __init__(self) -> None:
        self.scope = 0
        self.phase = shared.SETUP
        self.open: list[tuple[int, int]] = []
        """The records of the calls under way: where they are, and which ones."""


class PythonWriter:
    """Does what the native recorder does, as far as that goes without it."""

    def __init__(self) -> None:
        self._ring: Ring | None = None
        self._names: dict[tuple[int, str], int] = {}
        self._counts: dict[int, int] = {}
        self._state = _ThreadCalls()
        self._lock = threading.Lock()
        self._pid = 0

    def attach(self, ring: Ring) -> None:
        """Write to this ring."""
        self._ring, self._pid = ring, os.getpid()

    def close(self) -> None:
        """Write no more."""
        self._ring = None

    def observe(self, on: bool) -> None:
        """Do nothing: without native code operators cannot be seen."""

    def mute(self, by: int) -> None:
        """Do nothing: no code of ours would be recorded."""

    def name(self, kind: int, text: str) -> int:
        """The number of a name of some kind."""
        with self._lock:
            known = self._names.get((kind, text))
            if known is None:
                known = self._counts.get(kind, 0) + 1
                if not self._write_name(kind, known, text):
                    return 0
                self._counts[kind] = self._names[kind, text] = known
            return known

    def put_name(self, kind: int, number: int, text: str) -> bool:
        """Give a name a number."""
        with self._lock:
            return self._write_name(kind, number, text)

    def _write_name(self, kind: int, number: int, text: str) -> bool:
        ring = self._ring
        if ring is None:
            return False
        content = text.encode("utf-8", "replace")
        used = ring["names_used"]
        if used + shared.NAME_HEAD_BYTES + len(content) > ring.sizes.names_bytes:
            ring["names_lost"] += 1
            return False
        at = shared.RING_HEADER_BYTES + used
        struct.pack_into("<III", ring.memory, at, len(content), kind, number)
        at += shared.NAME_HEAD_BYTES
        ring.memory[at : at + len(content)] = content
        ring["names_used"] = used + shared.NAME_HEAD_BYTES + len(content)
        return True

    def phase(self, phase: int) -> int:
        """Set this thread's phase; returns the one before."""
        before, self._state.phase = self._state.phase, phase
        return before

    def enter(self, scope: int) -> int:
        """A module is called; returns the scope before."""
        state, ring = self._state, self._ring
        before, state.scope = state.scope, scope
        if ring is None or os.getpid() != self._pid:
            return before
        with self._lock:
            sequence = ring["head"] = ring["head"] + 1
        at = ring.sizes.records_at
        at += (sequence - 1) % ring.sizes.slots * shared.RING_RECORD_BYTES
        thread, op = threading.get_native_id(), self.name(shared.NAME_OPERATOR, MODULE)
        step, now = ring["step"], time.monotonic_ns()
        fields = (0, now, 0, op, 0, scope, 0, 0, thread, step, 0, 0, 0, 0, 0, 0, 0)
        _RECORD.pack_into(ring.memory, at, *fields, 0, state.phase, 0, 0, 0)
        struct.pack_into("<Q", ring.memory, at, sequence)
        state.open.append((at, sequence))
        return before

    def leave(self, scope: int) -> None:
        """Note that a module has returned; `scope` is what `enter` returned."""
        state, ring = self._state, self._ring
        state.scope = scope
        if ring is None or not state.open:
            return
        at, sequence = state.open.pop()
        if struct.unpack_from("<Q", ring.memory, at)[0] == sequence:
            struct.pack_into("<Q", ring.memory, at + _AT["end"], time.monotonic_ns())

    def mark(self, kind: int, number: int, text: str = "") -> None:
        """Note how the process ends."""
        ring = self._ring
        if ring is None or os.getpid() != self._pid:
            return
        count = ring["marker_count"]
        if count < shared.RING_MOST_MARKERS:
            at = shared.RING_MARKERS + count * shared.RING_MARKER_BYTES
            ring["marker_count"] = count + 1
            words, thread = text.encode()[:31], threading.get_native_id()
            now = time.time_ns()
            _MARKER.pack_into(ring.memory, at, kind, self._pid, number, thread, now, 0, words)


Mark = Callable[[int, int, str], None]

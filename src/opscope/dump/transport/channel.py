"""Records from the training process to the one that writes, through shared memory.

A pipe tells up to where records have been published: the reader sleeps on it, and sees its end when
the training process is gone. A record that was interrupted is never published.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

from opscope.dump.transport.memory import CONSUMED, CONTROL_BYTES, PUBLISHED, SharedMemory

MAX_RECORD = CONTROL_BYTES // 2
_RING_EVERY = 16
_SIZE = struct.Struct("<I")
_POSITION = struct.Struct("<q")

Record = tuple[Any, ...]


class Sender:
    """Publishes records; rings the bell now and then rather than for each."""

    def __init__(self, memory: SharedMemory, bell: int, wait: Callable[[], None]) -> None:
        self._memory = memory
        self._bell = bell
        self._wait = wait
        self._position = 0
        self._consumed = 0
        self._records = 0
        os.set_blocking(bell, False)

    def send(self, record: Record) -> None:
        """Publish a record."""
        body = marshal.dumps(record)
        data = _SIZE.pack(len(body)) + body
        if len(data) > MAX_RECORD:
            raise ValueError(f"a record of {len(data)} bytes")
        end = self._position + len(data)
        if end - self._consumed > CONTROL_BYTES:
            self._wait_for_room(end)
        self._memory.write_control(self._position, data)
        self._position = end
        self._memory.counters[PUBLISHED] = self._position
        self._records += 1
        if self._records >= _RING_EVERY:
            self.ring()

    def _wait_for_room(self, end: int) -> None:
        while end - (consumed := int(self._memory.counters[CONSUMED])) > CONTROL_BYTES:
            self._wait()
        self._consumed = consumed

    def ring(self) -> None:
        """Tell the reader how far it may read, if it listens."""
        if not self._records:
            return
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._bell, _POSITION.pack(self._position))
            self._records = 0


class Receiver:
    """Reads records in bursts, until the sender is gone."""

    def __init__(self, memory: SharedMemory, bell: int) -> None:
        self._memory = memory
        self._bell = bell
        self._position = 0

    def bursts(self) -> Iterator[Iterator[Record]]:
        """Return what has been published since the last burst."""
        while news := os.read(self._bell, 4096):
            yield self._read_to(_POSITION.unpack(news[-_POSITION.size :])[0])
        yield self._read_to(int(self._memory.counters[PUBLISHED]))

    def _read_to(self, end: int) -> Iterator[Record]:
        while self._position < end:
            yield self._next()

    def _next(self) -> Record:
        start = self._position + _SIZE.size
        size = _SIZE.unpack(self._memory.read_control(self._position, _SIZE.size))[0]
        record: Record = marshal.loads(self._memory.read_control(start, size))
        self._position = start + size
        self._memory.counters[CONSUMED] = self._position
        return record

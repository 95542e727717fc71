"""The memory that the training process shares with the process that writes."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Literal

import numpy as np

from opscope.dump.format.npy import Array
from opscope.dump.format.table_rows import Integers, Records
from opscope.stats.record import ROW_BYTES, ROW_DTYPE

HEADER_BYTES = 4096
CONTROL_BYTES = 2 * 2**20
_POPULATE_WRITE = 23
BYTES_PER_ROW = ROW_BYTES + 2 * 8
"""The room that a row takes in the arena: its record, its stream and its time."""
PUBLISHED, CONSUMED, DONE, FAILED = range(4)
"""Counters: bytes of records written and read, jobs done, whether writing has failed."""


class SharedMemory:
    """Counters, a ring for records, and an arena for values, in one anonymous file."""

    def __init__(self, descriptor: int, arena_bytes: int) -> None:
        self.arena_bytes = arena_bytes
        self._map = mmap.mmap(descriptor, HEADER_BYTES + CONTROL_BYTES + arena_bytes)
        self.counters = np.frombuffer(self._map, np.int64, 4)
        self._arena_start = HEADER_BYTES + CONTROL_BYTES
        self.arena_address = self.counters.ctypes.data + self._arena_start
        """The address at which the arena begins in this process."""

    def populate(self, arena_bytes: int) -> None:
        """Have the first part of the arena ready, as far as the system can do that ahead."""
        with contextlib.suppress(OSError):
            self._map.madvise(_POPULATE_WRITE, 0, self._arena_start + arena_bytes)

    def array(self, dtype: str, shape: tuple[int, ...], fortran: bool, start: int) -> Array:
        """An array over a piece of the arena."""
        order: Literal["F", "C"] = "F" if fortran else "C"
        offset = self._arena_start + start
        array: Array = np.ndarray(shape, dtype, self._map, offset, order=order)
        return array

    def rows(self, start: int, count: int) -> tuple[Records, Integers]:
        """Records, with the stream and the time of each, over a piece of the arena."""
        offset = self._arena_start + start
        records: Records = np.ndarray(count, ROW_DTYPE, self._map, offset)
        after = offset + count * ROW_BYTES
        moments: Integers = np.ndarray((count, 2), np.int64, self._map, after)
        return records, moments

    def write_control(self, position: int, data: bytes) -> None:
        """Put bytes into the ring of records, at a position that counts on and on."""
        start = HEADER_BYTES + position % CONTROL_BYTES
        end = start + len(data)
        if end <= self._arena_start:
            self._map[start:end] = data
            return
        first = self._arena_start - start
        self._map[start : self._arena_start] = data[:first]
        self._map[HEADER_BYTES : end - CONTROL_BYTES] = data[first:]

    def read_control(self, position: int, size: int) -> bytes:
        """Take bytes out of the ring of records."""
        start = HEADER_BYTES + position % CONTROL_BYTES
        end = start + size
        if end <= self._arena_start:
            return self._map[start:end]
        return self._map[start : self._arena_start] + self._map[HEADER_BYTES : end - CONTROL_BYTES]


def create(arena_bytes: int) -> int:
    """A new anonymous file for a SharedMemory; it takes memory only as it is written to."""
    descriptor = os.memfd_create("opscope-dump", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, HEADER_BYTES + CONTROL_BYTES + arena_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor

"""Append-only files of rows, written through mmap so that every row survives `kill -9`."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from opscope.messages import say_once
from opscope.rundir.layout import segment_file
from opscope.stats.record import (
    FLOAT,
    INT,
    PACK_FLOAT,
    PACK_INT,
    PACK_UINT,
    ROW_BYTES,
    UINT,
    VALID,
)
from opscope.stats.row import Row

MIB = 1 << 20
SEGMENT_BYTES = 16 * MIB


class SegmentWriter:
    """Appends rows to `directory`; beyond `budget` bytes the oldest segments are deleted."""

    def __init__(self, directory: Path, budget: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        page = mmap.PAGESIZE
        self._directory = directory
        self._bytes = max(page, min(segment_bytes, budget // 4) // page * page)
        self._keep = max(1, budget // self._bytes)
        self._budget = budget
        self._number = -1
        self._file = -1
        self._buffer: mmap.mmap
        self._offset = 0
        self._end = 0

    @property
    def rows(self) -> int:
        """How many rows have been written, dropped ones included."""
        full = max(self._number, 0) * (self._bytes // ROW_BYTES)
        return full + self._offset // ROW_BYTES

    @property
    def dropped(self) -> int:
        """How many rows were deleted to stay within the budget."""
        return max(0, self._number + 1 - self._keep) * (self._bytes // ROW_BYTES)

    def append(
        self, step: int, node: int, call: int, shape: int, row: Row, slot: int, io: int
    ) -> None:
        """Write one row; its first byte goes last, so a reader never sees half of one."""
        offset = self._offset
        if offset == self._end:
            self._advance()
            offset = 0
        pack, kind = PACK_FLOAT, FLOAT
        if isinstance(row[1], int):
            pack, kind = (PACK_INT, INT) if row[2] < 1 << 63 else (PACK_UINT, UINT)
        pack(self._buffer, offset, io, kind, slot, step, node, call, shape, *row)
        self._buffer[offset] = VALID
        self._offset = offset + ROW_BYTES

    def close(self) -> None:
        """Give back the space that was reserved and not used."""
        if self._file < 0:
            return
        self._buffer.close()
        try:
            os.ftruncate(self._file, self._offset)
        finally:
            os.close(self._file)
            self._file = -1
            self._end = self._offset

    def _advance(self) -> None:
        self.close()
        self._make_room()
        number = self._number + 1
        # The space is reserved, not sparse: a page that the disk has no room for would be a
        # SIGBUS at the write, while a reservation that fails is an OSError here.
        file = os.open(segment_file(self._directory, number), _CREATE, 0o644)
        try:
            os.posix_fallocate(file, 0, self._bytes)
            self._buffer = mmap.mmap(file, self._bytes)
        except OSError:
            os.ftruncate(file, 0)
            os.close(file)
            raise
        self._file, self._number, self._offset, self._end = file, number, 0, self._bytes

    def _make_room(self) -> None:
        oldest = self._number + 1 - self._keep
        if oldest < 0:
            return
        segment_file(self._directory, oldest).unlink(missing_ok=True)
        say_once(
            f"the statistics in {self._directory} have reached their budget of "
            f"{self._budget / MIB:.3g} MiB; from now on the oldest are dropped"
        )


_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

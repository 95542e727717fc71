"""Append-only files of rows, written through mmap so that every row survives `kill -9`."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opscope.messages import say_once
from opscope.rundir.layout import segment_file
from opscope.stats.memory import ADDRESS, END, NEXT, Buffer, address_of
from opscope.stats.record import ROW_BYTES

MIB = 1 << 20
SEGMENT_BYTES = 16 * MIB


class SegmentWriter:
    """Row memory in `directory`; beyond `budget` bytes the oldest segments are deleted."""

    def __init__(self, directory: Path, budget: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        page = mmap.PAGESIZE
        self.buffer: Buffer = bytearray()
        self.cursor = array("q", [0, 0, 0])
        self._directory = directory
        self._bytes = max(page, min(segment_bytes, budget // 4) // page * page)
        self._keep = max(1, budget // self._bytes)
        self._budget = budget
        self._number = -1
        self._file = -1
        self.on_error: Callable[[OSError], None] = lambda error: None
        """Told when there is no room for more."""

    @property
    def rows(self) -> int:
        """How many rows have been written, dropped ones included."""
        full = max(self._number, 0) * (self._bytes // ROW_BYTES)
        return full + self.cursor[NEXT] // ROW_BYTES

    @property
    def dropped(self) -> int:
        """How many rows were deleted to stay within the budget."""
        return max(0, self._number + 1 - self._keep) * (self._bytes // ROW_BYTES)

    def append(self, records: NDArray[np.void]) -> None:
        """Copy records that were written elsewhere; their first bytes go last."""
        data = np.ascontiguousarray(records).view(np.uint8).reshape(-1, ROW_BYTES)
        while len(data):
            if self.cursor[NEXT] == self.cursor[END]:
                self.advance()
            offset = self.cursor[NEXT]
            part = data[: (self.cursor[END] - offset) // ROW_BYTES]
            target = np.frombuffer(self.buffer, np.uint8, part.size, offset).reshape(part.shape)
            target[:, 1:] = part[:, 1:]
            target[:, 0] = part[:, 0]
            self.cursor[NEXT] = offset + part.size
            data = data[len(part) :]

    def advance(self) -> None:
        """Close the segment and begin the next; OSError if the disk has no room for it."""
        try:
            self._advance()
        except OSError as error:
            self.on_error(error)
            raise

    def _advance(self) -> None:
        self.close()
        self._make_room()
        number = self._number + 1
        # The space is reserved, not sparse: a page that the disk has no room for would be a
        # SIGBUS at the write, while a reservation that fails is an OSError here.
        file = os.open(segment_file(self._directory, number), _CREATE, 0o644)
        try:
            os.posix_fallocate(file, 0, self._bytes)
            self.buffer = mmap.mmap(file, self._bytes)
        except OSError:
            os.ftruncate(file, 0)
            os.close(file)
            raise
        self._file, self._number = file, number
        self.cursor[NEXT], self.cursor[END] = 0, self._bytes
        self.cursor[ADDRESS] = address_of(self.buffer)

    def close(self) -> None:
        """Give back the space that was reserved and not used."""
        if self._file < 0:
            return
        self.buffer = bytearray()  # records of it may still be looked at, so it is not unmapped
        self.cursor[END] = self.cursor[NEXT]
        try:
            os.ftruncate(self._file, self.cursor[NEXT])
        finally:
            os.close(self._file)
            self._file = -1

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

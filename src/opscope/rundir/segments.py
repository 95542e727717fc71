"""Append-only files of rows, written through mmap so that every row survives `kill -9`."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opscope.rundir.history import RowHistory
from opscope.rundir.stat_files import segment
from opscope.stats.memory import ADDRESS, END, NEXT, Buffer, address_of, records_in
from opscope.stats.record import ROW_BYTES

FIRST_BYTES = 128 << 10
LARGEST_BYTES = 16 << 20
_PARTS = 64
"""A budget holds at least so many segments, as far as pages allow."""


class SegmentWriter:
    """Row memory in `directory`, within `budget` bytes; segments grow from a small first one."""

    def __init__(self, directory: Path, budget: int, segment_bytes: int = LARGEST_BYTES) -> None:
        self.buffer: Buffer = bytearray()
        self.cursor = array("q", [0, 0, 0])
        self._directory = directory
        self._largest = _whole_pages(min(segment_bytes, budget // _PARTS))
        self._bytes = min(FIRST_BYTES, self._largest)
        self._history = RowHistory(directory, budget)
        self._before = 0
        self._number = -1
        self._file = -1
        self.on_error: Callable[[Exception], None] = lambda error: None
        """Told when there is no room for more, or no more can be written for another reason."""

    @property
    def rows(self) -> int:
        """The number of rows written, thinned and dropped ones included."""
        return self._before + self.cursor[NEXT] // ROW_BYTES

    @property
    def thinned(self) -> int:
        """The number of rows known by extremes only."""
        return self._history.thinned

    @property
    def dropped(self) -> int:
        """The number of rows deleted to stay within the budget."""
        return self._history.dropped

    def settle(self, step: int) -> None:
        """Note that a step ended and all its rows are there."""
        self._history.settle(step)

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
        """Close the segment and begin the next; OSError if that cannot be done."""
        try:
            self._advance()
        except Exception as error:
            self.on_error(error)
            raise error if isinstance(error, OSError) else OSError(str(error)) from error

    def _advance(self) -> None:
        self._close_segment()
        self._before, self.cursor[NEXT], self.cursor[END] = self.rows, 0, 0
        self._history.make_room(self._bytes)
        self._file, size = self._reserve(segment(self._directory, self._number + 1).rows)
        self._number += 1
        self.buffer = mmap.mmap(self._file, size)
        self.cursor[END] = size
        self.cursor[ADDRESS] = address_of(self.buffer)
        self._bytes = min(2 * size, self._largest)

    def _reserve(self, path: Path) -> tuple[int, int]:
        """A new file of the size that is due, or of what there is room for.

        The space is reserved, not sparse: a page that the disk has no room for would be a SIGBUS at
        the write, while a reservation that fails is an OSError here.
        """
        file = os.open(path, _CREATE, 0o644)
        size = self._bytes
        while True:
            try:
                os.posix_fallocate(file, 0, size)
                _fill(file, size)
                return file, size
            except OSError:
                os.ftruncate(file, 0)
                if size == mmap.PAGESIZE:
                    os.close(file)
                    path.unlink(missing_ok=True)
                    raise
                size = _whole_pages(size // 2)

    def close(self) -> None:
        """Give back the space that was reserved and not used, and index what there is."""
        self._close_segment()
        self._history.settle()

    def _close_segment(self) -> None:
        if self._file < 0:
            return
        written = self.cursor[NEXT]
        records = records_in(self.buffer, 0, written)  # also what late rows go to: it stays mapped
        self.buffer = bytearray()
        self.cursor[END] = written
        try:
            os.ftruncate(self._file, written)
        finally:
            os.close(self._file)
            self._file = -1
        self._history.add(segment(self._directory, self._number), records)


def _fill(file: int, size: int) -> None:
    """Write zeros: a page that is first written through the map costs training four times that."""
    for start in range(0, size, len(_ZEROS)):
        os.pwrite(file, _ZEROS[: size - start], start)


def _whole_pages(size: int) -> int:
    return max(mmap.PAGESIZE, size // mmap.PAGESIZE * mmap.PAGESIZE)


_ZEROS = memoryview(bytes(1 << 20))
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

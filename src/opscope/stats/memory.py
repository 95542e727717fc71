"""Memory that records are written into, from Python or from native code.

`cursor` holds three numbers that native code reads and writes too: the offset of the next record,
the offset where the buffer ends, and the buffer's address.
"""

from __future__ import annotations

import ctypes
import mmap
from array import array
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opscope.native import shared
from opscope.stats.record import ROW_BYTES, ROW_DTYPE

NEXT, END, ADDRESS = shared.NEXT, shared.END, shared.ADDRESS
_FIRST_CHUNK, _LARGEST_CHUNK = 1024 * ROW_BYTES, 16_384 * ROW_BYTES

Buffer = bytearray | mmap.mmap


class RowMemory(Protocol):
    """A buffer of records with a cursor; `advance` makes room when it is full."""

    buffer: Buffer
    cursor: array[int]

    def advance(self) -> None:
        """Take another buffer; OSError if there is none."""


class PlainMemory:
    """Memory of this process, for rows that nobody keeps."""

    def __init__(self) -> None:
        self.buffer: Buffer = bytearray()
        self.cursor = array("q", [0, 0, 0])
        self._size = _FIRST_CHUNK

    def advance(self) -> None:
        """Take a fresh buffer; larger ones as more are needed, so that a step needs few."""
        self.buffer = bytearray(self._size)
        self.cursor[NEXT], self.cursor[END] = 0, self._size
        self.cursor[ADDRESS] = address_of(self.buffer)
        self._size = min(2 * self._size, _LARGEST_CHUNK)


def address_of(buffer: Buffer) -> int:
    """Return where a buffer begins; true as long as the buffer lives."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def records_in(buffer: Buffer, start: int, end: int) -> NDArray[np.void]:
    """The records between two offsets, as an array that keeps the buffer alive."""
    count = (end - start) // ROW_BYTES
    return np.frombuffer(buffer, ROW_DTYPE, count, start)

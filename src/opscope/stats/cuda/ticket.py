"""Rows that the device is still computing, and how they get into their records."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.stats.cuda.forms import OUT_BYTES
from opscope.stats.cuda.ring import HostMemory
from opscope.stats.cuda.streams import Event
from opscope.stats.native_cpu import place_rows
from opscope.stats.record import FLOAT, KIND, NUMBERS, ROW_BYTES, VALID

_COUNT = (ROW_BYTES - NUMBERS) // 8
_EMPTY = np.array([0, *[np.nan] * 6, *[0] * 6], dtype=np.float64).view(np.int64)
"""The numbers of a row without elements; 0 and 0.0 have the same bits."""


class Finished(NamedTuple):
    """Pages of finished rows of one device, and where each row goes."""

    event: Event
    pages: list[Any]
    addresses: array[int]
    memory: HostMemory


class CudaTicket:
    """The rows submitted between two flushes."""

    def __init__(self, finished: list[Finished], empties: array[int]) -> None:
        self._finished = finished
        self._empties = empties

    @property
    def empty(self) -> bool:
        """True if there are none."""
        return not self._finished and not self._empties

    def ready(self) -> bool:
        """Tell whether the numbers have arrived."""
        return all(part.event.query() for part in self._finished)

    def wait(self) -> None:
        """Return when they have."""
        for part in self._finished:
            part.event.synchronize()

    def deliver(self) -> None:
        """Write them into their records, and make these valid. A second call does nothing."""
        finished, self._finished = self._finished, []
        empties, self._empties = self._empties, array("q")
        if empties:
            rows = np.tile(_EMPTY, (len(empties), 1))
            _write(np.frombuffer(empties, np.int64), rows, np.full(len(rows), FLOAT, np.uint8))
        for part in finished:
            part.event.synchronize()
            addresses = np.frombuffer(part.addresses, np.int64)
            width = OUT_BYTES // 8
            start = 0
            for page in part.pages:
                rows = page.numpy().reshape(-1, width)[: len(addresses) - start]
                here = addresses[start : start + len(rows)]
                start += len(rows)
                if not place_rows(here.ctypes.data, page.data_ptr(), len(rows)):
                    _place(here, rows)
                part.memory.give(page)


def _place(addresses: NDArray[Any], rows: NDArray[Any]) -> None:
    """Fill in the records at these addresses from rows that begin with their kind."""
    sound = rows[:, 1] > 0  # no elements: the memory was gone before it was read
    if not sound.all():
        addresses, rows = addresses[sound], rows[sound]
    _write(addresses, rows[:, 1 : 1 + _COUNT], rows[:, 0].astype(np.uint8))


def _write(addresses: NDArray[Any], rows: NDArray[Any], kinds: NDArray[Any]) -> None:
    """Fill in the records at these addresses, which are multiples of eight."""
    if not len(addresses):
        return
    lowest = int(addresses.min())
    span = int(addresses.max()) - lowest + ROW_BYTES
    # A view over all memory between the first record and the last; only records are touched.
    memory: NDArray[Any] = np.frombuffer((ctypes.c_ubyte * span).from_address(lowest), np.uint8)  # type: ignore[call-overload]
    offsets = addresses - lowest
    if (offsets & (ROW_BYTES - 1)).any():
        words = memory[: span // 8 * 8].view(np.int64)
        words[((offsets + NUMBERS) >> 3)[:, None] + np.arange(_COUNT)] = rows
    else:
        records = memory.view(np.int64).reshape(-1, ROW_BYTES // 8)
        records[offsets // ROW_BYTES, NUMBERS // 8 :] = rows
    memory[offsets + KIND] = kinds
    memory[offsets] = VALID

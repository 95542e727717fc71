"""Memory that kernels write to, used in turn: heads and parts on the device, rows on the host.

The rows of a step go into one *lap*. Two laps take turns; streams that come back to a lap wait on
the device, not the host, until its last rows are finished. Memory of the host is taken again only
when the device is known to be done with it. All of it grows when a step needs more, and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscope.stats.cuda.forms import HEAD_BYTES, OUT_BYTES
from opscope.stats.cuda.streams import CudaStreams, Event, NoStreams

PAGE_ROWS = 2048
PARTS_BYTES = 4 << 20
Streams = CudaStreams | NoStreams


class HostMemory:
    """Pinned blocks of one size, lent until an event has happened."""

    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self._make = make
        self._count = count
        self._lent: list[tuple[Event, Any]] = []
        self._free: list[Any] = []

    def take(self) -> Any:
        """A block that the device has nothing to do with."""
        if not self._free:
            self._sweep()
        return self._free.pop() if self._free else self._make(self._count)

    def lend(self, block: Any, until: Event) -> None:
        """The device uses the block until then, and then it may be taken again."""
        self._lent.append((until, block))

    def give(self, block: Any) -> None:
        """Nobody uses the block any more."""
        self._free.append(block)

    def _sweep(self) -> None:
        lent, self._lent = self._lent, []
        for event, block in lent:
            if event.query():
                self._free.append(block)
            else:
                self._lent.append((event, block))


class Lap:
    """Device memory for the rows of one step."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._heads: list[Any] = []
        self._parts: list[Any] = []
        self._used_heads = 0
        self._used_parts = 0
        self.done: Event | None = None
        """The event at which the rows of the last turn were finished."""

    def restart(self) -> None:
        """Use the memory from its beginning."""
        self._used_heads = self._used_parts = 0

    def heads(self) -> int:
        """The address of heads for another `PAGE_ROWS` rows."""
        if self._used_heads == len(self._heads):
            self._heads.append(self._streams.empty(PAGE_ROWS * HEAD_BYTES // 8))
        self._used_heads += 1
        address: int = self._heads[self._used_heads - 1].data_ptr()
        return address

    def parts(self, size: int) -> tuple[int, int]:
        """Return where another stretch of memory begins and ends, of at least `size` bytes."""
        while self._used_parts < len(self._parts):
            block = self._parts[self._used_parts]
            self._used_parts += 1
            if block.nbytes >= size:
                return block.data_ptr(), block.data_ptr() + block.nbytes
        block = self._streams.empty(max(size, PARTS_BYTES) // 8)
        self._parts.append(block)
        self._used_parts += 1
        return block.data_ptr(), block.data_ptr() + block.nbytes

    @property
    def device_bytes(self) -> int:
        """The memory of the device that this lap has."""
        return sum(block.nbytes for block in (*self._heads, *self._parts))


def out_memory(streams: Streams) -> HostMemory:
    """Memory of the host for pages of finished rows."""
    return HostMemory(streams.pinned, PAGE_ROWS * OUT_BYTES // 8)

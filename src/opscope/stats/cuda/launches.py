"""Small tensors that wait for company: one launch reads all of a table."""

from __future__ import annotations

import struct
from typing import Any

from opscope.native import shared
from opscope.stats.cuda.forms import ElementForm, programs
from opscope.stats.cuda.launch import Kernel
from opscope.stats.cuda.ring import HostMemory
from opscope.stats.torch_values import storage_start

ENTRY = struct.Struct(f"{shared.ENTRY_BYTES // 8}q")
TABLE_ENTRIES = 1024
"""Entries in one block of memory for tables; a batch takes part of it."""
MOST = shared.MOST_IN_BATCH
"""Tensors in one batch."""
WIDEST = shared.MOST_PROGRAMS_IN_BATCH
"""Programs for each: every one of them reads its entry in the table from the host's memory."""

pack_entry = ENTRY.pack_into


class Launch:
    """Tensors of one form on one stream, and the table that describes them.

    It holds on to their memory, not to the tensors: whether a tensor has other owners decides in
    places whether autograd copies it.
    """

    __slots__ = ("_blocks", "_coarse", "_form", "_kernel", "_tables", "block", "end", "held",
                 "offset", "start", "stream", "view")  # fmt: skip

    def __init__(self, form: ElementForm, kernel: Kernel, coarse: int, tables: HostMemory) -> None:
        self._form = form
        self._coarse = coarse
        self._kernel = kernel
        self._tables = tables
        self._blocks: list[Any] = []
        self.block: Any = None
        self.view: Any = None
        self.start = self.offset = self.end = 0
        """The places in the block at which the table of the batch begins, goes on, and must end."""
        self.stream = 0
        self.held: list[Any] = []

    def begin(self, stream: int) -> None:
        """Make room for a whole batch, on this stream."""
        self.stream = stream
        if self.block is None or self.offset + MOST * ENTRY.size > self.block.nbytes:
            self.block = self._tables.take()
            self._blocks.append(self.block)
            self.view = memoryview(self.block.numpy()).cast("B")
            self.offset = 0
        self.start = self.offset
        self.end = self.start + MOST * ENTRY.size

    def launch(self) -> tuple[list[Any], int]:
        """Enqueue the reading of all of them; returns the memory that was held, and its bytes."""
        held, self.held = self.held, []
        table = self.block.numpy()[self.start // 8 : self.offset // 8].reshape(-1, 5)
        if not all(map(storage_start, held)):
            # Freed in spite of us, as FSDP does: nothing of it is read.
            table[[not storage_start(tensor) for tensor in held], 1] = 0
        sizes = table[:, 1]
        k = self._kernel
        widest = programs(int(sizes.max()), self._form.group, self._coarse)
        k.launch(
            min(max(1, widest), WIDEST), len(held), 1, self.stream,
            k.function, k.cooperative, k.pdl, None, None, k.packed, None, None, None,
            self.block.data_ptr() + self.start, self._coarse, 0, 0, 0, 0,
            None, None, None, None, None, None, None, None, None,
        )  # fmt: skip
        return held, int(sizes.sum()) * self._form.size

    def blocks(self) -> list[Any]:
        """The memory of all tables since the last call, which will not be written to again."""
        blocks, self._blocks = self._blocks, []
        self.block = self.view = None
        return blocks


def table_memory(make: Any) -> HostMemory:
    """Memory of the host for tables."""
    return HostMemory(make, TABLE_ENTRIES * ENTRY.size // 8)

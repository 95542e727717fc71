"""The rows of one device: large tensors at once, small ones in batches, finished at a flush."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from opscope.native import shared
from opscope.stats.cuda.forms import (
    COARSE,
    FORMS,
    GATHERED,
    GROUP_BYTES,
    HEAD_BYTES,
    PART_BYTES,
    THREADS,
    ElementForm,
)
from opscope.stats.cuda.forms import programs as programs_for
from opscope.stats.cuda.launch import Kernel, finish_kernel, parts_kernel, runs_kernel
from opscope.stats.cuda.launches import ENTRY, Launch, pack_entry, table_memory
from opscope.stats.cuda.layout import Runs, vectors_fit
from opscope.stats.cuda.ring import PAGE_ROWS, Lap, Streams, out_memory
from opscope.stats.cuda.streams import Event
from opscope.stats.cuda.ticket import Finished
from opscope.stats.torch_values import storage_address

SMALL_BYTES, MIDDLE_BYTES = shared.SMALL_BYTES, shared.MIDDLE_BYTES
"""Tensors up to these sizes wait for company; the former are cut as if they were alone."""
GATHERED_BYTES = GATHERED * GROUP_BYTES
"""Tensors up to this size do so while many come at once."""
HELD_BYTES = shared.HELD_BYTES
"""So much memory of small tensors is held at most before they are read."""
_ENTRY_BYTES = ENTRY.size
_TINY_BYTES = shared.TINY_BYTES
"""Tensors up to this size are not mixed with larger ones, whose many programs they do not need."""
_SMALL, _TINY, _MIDDLE = range(3)
_CLASSES = 3
"""Of sizes."""


HEAD, HEAD_END, SLOT, STREAM = shared.HEAD, shared.HEAD_END, shared.SLOT, shared.STREAM
PART, PART_END = shared.PART, shared.PART_END
"""In the cursor: where the next head and parts go and where their memory ends, where the address
of the next record is to be written, and the stream in use."""


class _Page(NamedTuple):
    """Heads of up to `PAGE_ROWS` rows, and the addresses of their records."""

    heads: int
    addresses: array[int]


class DeviceRows:
    """Reads tensors of one device. That device is the current one whenever it is called."""

    def __init__(self, index: int, streams: Streams, precise: bool) -> None:
        self._index = index
        self._streams = streams
        self._current_stream = streams.current
        self._capturing = streams.capturing
        self._precise = precise
        self._kernels: list[Kernel | None] = [None] * (2 * len(FORMS))
        self._runs_kernels: list[Kernel | None] = [None] * (2 * len(FORMS))
        self._batches: list[Launch | None] = [None] * (2 * _CLASSES * len(FORMS))
        self._laps = [Lap(streams), Lap(streams)]
        self._outs = out_memory(streams)
        self._tables = table_memory(streams.pinned)
        self._used: set[int] = set()
        self._seen: set[int] = set()
        self._in_flight: list[tuple[Event, list[Any]]] = []
        self._retired: list[tuple[Event, list[Any]]] = []
        self._pages: list[_Page] = []
        self._native_tables: list[Any] = []
        self.cursor = array("q", [0, 0, 0, 0, 0, -1])
        """The place of the next row, for native callers too: see the constants above."""
        self._gathering = False
        self._held_bytes = 0
        self.held: dict[int, Launch] = {}
        """Storage (its `_cdata`) → the batch that waits to read it."""

    @property
    def device_bytes(self) -> int:
        """The memory of the device that is kept for rows."""
        return sum(lap.device_bytes for lap in self._laps)

    def submit(
        self,
        tensor: Any,
        form: ElementForm,
        count: int,
        times: int,
        address: int,
        runs: Runs | None = None,
    ) -> bool:
        """Enqueue the row of a tensor; false while a graph is captured.

        It has no gaps, or else is in `runs`.
        """
        # About 1.7 µs (2-core machine) and the launch; a small tensor about 2 µs in all.
        _, _, size, group, number = form
        pointer = tensor.data_ptr()
        stream = self._current_stream(self._index)
        if stream and self._capturing():  # the default stream cannot be captured
            return False
        cursor = self.cursor
        if stream != cursor[STREAM]:
            self.enter(stream)
        head = cursor[HEAD]
        if head == cursor[HEAD_END]:
            head = self.new_page()
        cursor[HEAD] = head + HEAD_BYTES
        page = self._pages[-1]
        page.addresses[(head - page.heads) // HEAD_BYTES] = address
        cursor[SLOT] += 8
        count_bytes = count * size
        most = GATHERED_BYTES if self._gathering else MIDDLE_BYTES
        gathered = SMALL_BYTES < count_bytes <= most and runs is None
        programs = programs_for(count, group, GATHERED if gathered else COARSE)
        part = cursor[PART]
        end = part + programs * PART_BYTES
        if end > cursor[PART_END]:
            part = self.new_parts(programs * PART_BYTES)
            end = part + programs * PART_BYTES
        cursor[PART] = end
        aligned = not pointer & 15
        size_class = _TINY if count_bytes <= _TINY_BYTES else _SMALL
        if runs is not None:
            aligned = aligned and vectors_fit(runs, size)
            k = self._runs_kernels[number + number + aligned]
            if k is None:
                k = self._runs_kernel(form, aligned)
            k.launch(
                programs, 1, 1, stream, k.function, k.cooperative, k.pdl,
                None, None, k.packed, None, None, None,
                pointer, count, part, head, times, *runs,
                None, None, None, None, None, None, None, None, None,
            )  # fmt: skip
            return True
        if gathered:
            size_class = _MIDDLE
        elif count_bytes > SMALL_BYTES:
            k = self._kernels[number + number + aligned]
            if k is None:
                k = self._kernel(form, aligned)
            k.launch(
                programs, 1, 1, stream, k.function, k.cooperative, k.pdl,
                None, None, k.packed, None, None, None,
                0, pointer, count, part, head, times,
                None, None, None, None, None, None, None, None, None,
            )  # fmt: skip
            return True
        place = _CLASSES * (number + number + aligned) + size_class
        batch = self._batches[place]
        if batch is None:
            coarse = GATHERED if gathered else COARSE
            kernel = self._kernel(form, aligned)
            batch = self._batches[place] = Launch(form, kernel, coarse, self._tables)
        if not batch.held:
            batch.begin(stream)
        storage = storage_address(tensor)
        other = self.held.setdefault(storage, batch)
        if other is not batch:
            self.launch(other)
            self.held[storage] = batch
        offset = batch.offset
        pack_entry(batch.view, offset, pointer, count, part, head, times)
        batch.offset = offset = offset + _ENTRY_BYTES
        batch.held.append(tensor.detach())  # keeps its memory
        self._held_bytes += count_bytes
        if offset == batch.end:
            self.launch(batch)
        elif self._held_bytes > HELD_BYTES and not self._gathering:
            self.launch_all()
        return True

    def gather(self, on: bool) -> None:
        """Let large tensors wait for company too; what has waited is read when it is over."""
        self._gathering = on
        if not on and not self._capturing():
            for batch in self._batches[_MIDDLE::_CLASSES]:
                if batch is not None and batch.held:
                    self.launch(batch)

    def launch(self, batch: Launch) -> None:
        """Read the tensors of a batch now."""
        held, size = batch.launch()
        self._held_bytes -= size
        for key in [key for key, other in self.held.items() if other is batch]:
            del self.held[key]
        if len(self._seen) > 1:
            # Another stream may own the memory, and may have waited for this one already.
            self._retired.append((self._streams.record(batch.stream), held))
            if len(self._retired) > 4:
                self._retired = [old for old in self._retired if not old[0].query()]

    def launch_all(self) -> None:
        """Read everything that waits."""
        for batch in self._batches:
            if batch is not None and batch.held:
                self.launch(batch)

    def flush(self) -> Finished | None:
        """Finish the rows submitted since the last flush, without waiting for them."""
        self.launch_all()
        if not self._pages:
            return None
        streams, side = self._streams, self._streams.side
        for stream in self._used:
            streams.join(side, stream)
        pages = [self._outs.take() for _ in self._pages]
        rows = (self.cursor[HEAD] - self._pages[-1].heads) // HEAD_BYTES
        rows += PAGE_ROWS * (len(pages) - 1)
        addresses = array("q")
        k = finish_kernel(self._index)
        for heads, page in zip(self._pages, pages, strict=True):
            here = min(rows - len(addresses), PAGE_ROWS)
            addresses += heads.addresses[:here]
            k.launch(
                here, 1, 1, side, k.function, k.cooperative, k.pdl,
                None, None, k.packed, None, None, None,
                heads.heads, page.data_ptr(), None,
            )  # fmt: skip
        done = streams.record(side)
        # Should nobody keep the ticket, the device still writes to its pages.
        self._in_flight = [old for old in self._in_flight if not old[0].query()]
        self._in_flight.append((done, pages))
        self._turn(done)
        return Finished(done, pages, addresses, self._outs)

    def _turn(self, done: Event) -> None:
        """Begin the other lap."""
        lap, other = self._laps
        lap.done = done
        for batch in self._batches:
            if batch is not None:
                for block in batch.blocks():
                    self._tables.lend(block, done)
        for block in self._native_tables:
            self._tables.lend(block, done)
        self._native_tables = []
        other.restart()
        self._laps = [other, lap]
        self._pages = []
        self._used = set()
        self.cursor[:] = array("q", [0, 0, 0, 0, 0, -1])

    def enter(self, stream: int) -> None:
        """The current stream is another than before: what waits is read on its own stream."""
        self.launch_all()
        self.cursor[STREAM] = stream
        if stream in self._used:
            return
        self._used.add(stream)
        self._seen.add(stream)
        done = self._laps[0].done
        if done is not None and not done.query():
            self._streams.wait(stream, done)

    def new_page(self) -> int:
        """Room for more rows; returns where the next head goes."""
        page = _Page(self._laps[0].heads(), array("q", bytes(8 * PAGE_ROWS)))
        self._pages.append(page)
        self.cursor[HEAD] = page.heads
        self.cursor[HEAD_END] = page.heads + PAGE_ROWS * HEAD_BYTES
        self.cursor[SLOT] = page.addresses.buffer_info()[0]
        return page.heads

    def new_parts(self, size: int) -> int:
        """Room for at least `size` bytes of partial rows; returns where they go."""
        part, end = self._laps[0].parts(size)
        self.cursor[PART], self.cursor[PART_END] = part, end
        return part

    def current(self) -> int:
        """The current stream."""
        stream: int = self._current_stream(self._index)
        return stream

    def capturing(self) -> bool:
        """Tell whether the current stream is being captured into a graph."""
        return bool(self._capturing())

    @property
    def one_stream(self) -> bool:
        """True if everything so far was on one stream, so that native callers need no events."""
        return len(self._seen) == 1

    def new_table(self) -> tuple[int, int]:
        """Memory for tables of native callers until the next flush: its address and size."""
        block = self._tables.take()
        self._native_tables.append(block)
        return block.data_ptr(), block.nbytes

    def kernel_info(self, number: int, aligned: bool, runs: bool) -> tuple[int, int, int]:
        """A kernel for native callers: its function (0 if there is none), threads, shared bytes."""
        form = next(form for form in FORMS.values() if form.number == number)
        if runs:
            kernel = self._runs_kernels[2 * number + aligned] or self._runs_kernel(form, aligned)
        else:
            kernel = self._kernels[2 * number + aligned] or self._kernel(form, aligned)
        return (0 if kernel.packed is None else kernel.function), THREADS, kernel.shared

    def _kernel(self, form: ElementForm, aligned: bool) -> Kernel:
        kernel = parts_kernel(form, bool(aligned), self._precise, self._index)
        self._kernels[2 * form.number + aligned] = kernel
        return kernel

    def _runs_kernel(self, form: ElementForm, aligned: bool) -> Kernel:
        kernel = runs_kernel(form, bool(aligned), self._precise, self._index)
        self._runs_kernels[2 * form.number + aligned] = kernel
        return kernel

"""Writing in a process of its own: the training thread only copies values into shared memory.

A thread would have to share the interpreter lock with training, which costs more per small file
than writing it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Hashable, Sequence
from ctypes import memmove
from typing import Any

import numpy as np

from opscope.dump.format import npy
from opscope.dump.format.digest import digest
from opscope.dump.format.subject import Label, Sighting, StoredType
from opscope.dump.format.table_rows import OPAQUE, NumberSet, TableRows
from opscope.dump.format.values import StoredElements, key_of, read
from opscope.dump.layout import DumpFolder
from opscope.dump.transport.arena import Arena, Slot, aligned
from opscope.dump.transport.channel import Sender
from opscope.dump.transport.memory import BYTES_PER_ROW, DONE, FAILED
from opscope.dump.transport.process import WriterProcess
from opscope.dump.transport.store import Store
from opscope.dump.transport.writer import WriterError, WritingEnd
from opscope.events import IO, Source
from opscope.messages import say
from opscope.stats.native_cpu import row_of_array
from opscope.stats.torch_values import PLAIN_DTYPES, dtype_name, is_plain, shape_of

_INPUT = IO.INPUT.value
_PAUSE_S = 0.0005
_QUIET_S, _REPORT_EVERY_S = 1.0, 5.0
_NAMES_PER_RECORD = 500
_CHARACTERS_PER_RECORD = 100_000
_ROWS_AT_ONCE = 4096


class BackgroundWriter:
    """Hands everything to the writing process; waits when more than `limit` bytes are pending."""

    def __init__(self, store: Store, process: WriterProcess, saves: bool, limit: int) -> None:
        self._store = store
        self._saves = saves
        self._process = process
        self._memory = process.memory
        self._sender = Sender(self._memory, process.bell, self._wait)
        self.arena = Arena(limit, self._jobs_done, self._wait)
        self._memory.populate(self.arena.soft_limit)
        self._jobs = 0
        self._labels, self._row_kinds = NumberSet(), NumberSet()
        self._rows_at_once = max(1, min(_ROWS_AT_ONCE, limit // 2 // BYTES_PER_ROW))
        self._kinds: dict[Hashable, int] = {}
        self._plain_kinds: dict[Hashable, int] = {}
        self._samples = store.form.samples
        self._lock = threading.RLock()

    def value(
        self,
        seen: Sighting,
        tensor: Any,
        source: Source | None,
        changing: bool,
        measures: bool,
    ) -> str:
        self._check()
        key = key_of(tensor, source, changing)
        with self._lock:
            slot = self.arena.find(key) if seen.moment.io == _INPUT else None
            if slot is not None:
                self._submit(seen, slot, True, measures)
                return ""
            plain = self._hold_plain(key, tensor)
            if plain is not None:
                self._submit(seen, plain, False, measures)
                return ""
            store = self._store
            reading = read(tensor, store.form, measures, bool(store.columns.algorithms))
            if isinstance(reading, str):
                return reading
            if self.arena.fits(_size(reading)):
                self._submit(seen, self._hold(key, reading), False, measures)
            else:
                self._write_here(seen, reading, measures)
        return ""

    def rows(self, batch: TableRows) -> None:
        self._check()
        with self._lock:
            for number in self._labels.add_all(batch.records["node"]):
                self._sender.send(("label", *batch.labels[number]))
            for number in self._row_kinds.add_all(batch.records["shape"]):
                self._sender.send(("row_kind", number, *batch.kinds[number]))
            for part in batch.parts(self._rows_at_once):
                self._submit_rows(part)

    def line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        with self._lock:
            self._sender.send(("line", *place, table, header, line))

    def text(self, place: DumpFolder, name: str, text: str) -> None:
        with self._lock:
            for first in range(0, len(text), _CHARACTERS_PER_RECORD):
                part = text[first : first + _CHARACTERS_PER_RECORD]
                is_last = first + _CHARACTERS_PER_RECORD >= len(text)
                self._sender.send(("text", *place, name, part, is_last))

    def skip(self, name: str, io: str, slot: int, reason: str) -> None:
        with self._lock:
            self._sender.send(("skip", name, io, slot, reason))

    def order(self, graph: int, names: Sequence[str]) -> None:
        with self._lock:
            for first in range(0, len(names), _NAMES_PER_RECORD):
                part = list(names[first : first + _NAMES_PER_RECORD])
                is_last = first + _NAMES_PER_RECORD >= len(names)
                self._sender.send(("order", graph, part, is_last))

    def finish(
        self, iteration: int, complete: bool, graphs: Sequence[int], passes: Sequence[int] = ()
    ) -> None:
        self._check()
        with self._lock:
            self._sender.send(("finish", iteration, complete, list(graphs), list(passes)))
            self._sender.ring()
            self.arena.forget()
        self._process.check_alive()

    def describe(self, description: str) -> None:
        with self._lock:
            self._sender.send(("describe", description))

    def fail(self, failure: str) -> None:
        """Do nothing: the process that writes knows, or will hear of it when it is closed."""

    def close(self, failure: str) -> WritingEnd:
        with self._lock, contextlib.suppress(WriterError):
            self._sender.send(("close", failure))
        self._process.hang_up()
        patience = _QUIET_S
        while (outcome := self._process.outcome(patience)) is None:
            say(f"writing dump: {self._jobs_done()} of {self._jobs} parts")
            patience = _REPORT_EVERY_S
        return outcome

    def _hold_plain(self, key: Hashable, tensor: Any) -> Slot | None:
        """Hold a value whose memory is what its file has: no array is made of it, it is copied."""
        if self._samples or not is_plain(tensor) or not (tensor.is_cpu and tensor.is_contiguous()):
            return None
        number = self._plain_kinds.get((tensor.dtype, tensor.shape))
        if number is None:
            number = self._new_plain_kind(tensor)
        size = tensor.nbytes
        if number < 0 or tensor.is_conj() or tensor.is_neg() or not self.arena.fits(size):
            return None
        slot = self.arena.allocate(size)
        memmove(self._memory.arena_address + slot.start, tensor.data_ptr(), size)
        slot.content = number, 0
        self.arena.keep(slot, key)
        return slot

    def _new_plain_kind(self, tensor: Any) -> int:
        """The number of a kind of tensors; -1 where NumPy has no such data type."""
        name = dtype_name(tensor)
        number = -1
        if name in PLAIN_DTYPES:
            kind = StoredType(name, shape_of(tensor))
            number = self._kind(kind, np.dtype(name).str, kind.shape, False)
        self._plain_kinds[tensor.dtype, tensor.shape] = number
        return number

    def _hold(self, key: Hashable, reading: StoredElements) -> Slot:
        array, raw, kind = reading
        fortran = array.flags.fnc
        slot = self.arena.allocate(_size(reading))
        self._memory.array(array.dtype.str, array.shape, fortran, slot.start)[...] = array
        raw_bytes = 0
        if raw is not None:
            raw_bytes = raw.nbytes
            start = slot.start + aligned(array.nbytes)
            self._memory.array("u1", (raw_bytes,), False, start)[...] = raw
        slot.content = self._kind(kind, array.dtype.str, array.shape, fortran), raw_bytes
        self.arena.keep(slot, key)
        return slot

    def _submit(self, seen: Sighting, slot: Slot, repeats: bool, measures: bool) -> None:
        place, label, moment = seen
        self._introduce(label)
        self._jobs += 1
        slot.job = self._jobs
        how = slot.start, *slot.content, repeats, measures
        self._sender.send(("value", slot.job, *place, label.id, *moment, *how))

    def _submit_rows(self, batch: TableRows) -> None:
        count = len(batch.records)
        slot = self.arena.allocate(count * BYTES_PER_ROW)
        records, moments = self._memory.rows(slot.start, count)
        records.view(OPAQUE)[...] = batch.records.view(OPAQUE)
        moments[...] = batch.moments
        self._jobs += 1
        slot.job = self._jobs
        self._sender.send(("rows", slot.job, *batch.place, slot.start, count))

    def _introduce(self, label: Label) -> None:
        """Send a label before the first record that uses it."""
        if self._labels.add(label.id):
            self._sender.send(("label", *label))

    def _kind(self, kind: StoredType, dtype: str, shape: tuple[int, ...], fortran: bool) -> int:
        """The number that stands for a kind of value and how it lies in the arena."""
        key = kind, shape, fortran
        number = self._kinds.get(key)
        if number is None:
            number = len(self._kinds)
            self._sender.send(("kind", number, tuple(kind), dtype, shape, fortran))
            self._kinds[key] = number
        return number

    def _write_here(self, seen: Sighting, reading: StoredElements, measures: bool) -> None:
        """Write a value that is larger than all the shared memory; only its place is left to do."""
        place, label, moment = seen
        array, raw, kind = npy.dense(reading.array), reading.raw, reading.kind
        about = *place, label.id, *moment, tuple(kind)
        self._introduce(label)
        if self._saves:
            saved = npy.dense(self._store.form.sample(array))
            header, data = npy.buffers(saved)
            size = len(header) + saved.nbytes
            temporary = self._store.temp.write((header, data), size)
            self._sender.send(("adopt", *about, temporary, size))
        if measures:
            algorithms = self._store.columns.algorithms
            digests = [digest(each, array if raw is None else raw) for each in algorithms]
            self._sender.send(("row", *about, tuple(row_of_array(array)), digests))

    def _jobs_done(self) -> int:
        return int(self._memory.counters[DONE])

    def _wait(self) -> None:
        """Let the writing process go on for a moment."""
        self._sender.ring()
        self._check()
        self._process.check_alive()
        time.sleep(_PAUSE_S)

    def _check(self) -> None:
        if self._memory.counters[FAILED]:
            raise WriterError(self._process.failure())


def _size(reading: StoredElements) -> int:
    return aligned(reading.array.nbytes) + (0 if reading.raw is None else reading.raw.nbytes)

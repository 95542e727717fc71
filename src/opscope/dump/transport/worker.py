"""The process that writes: does what the records say, until the training process is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from opscope.dump.format.form import FileForm
from opscope.dump.format.manifest import Manifest
from opscope.dump.format.npy import Array, dense
from opscope.dump.format.subject import Label, Moment, StoredType, Subject
from opscope.dump.format.table_rows import TableRows
from opscope.dump.layout import DumpFolder
from opscope.dump.transport.arena import aligned
from opscope.dump.transport.channel import Receiver, Record
from opscope.dump.transport.failure import describe
from opscope.dump.transport.memory import DONE, FAILED, SharedMemory
from opscope.dump.transport.parallel import LARGE, ParallelWrites
from opscope.dump.transport.store import Store, StorePlan
from opscope.stats.row import Row
from opscope.value_type import ValueType

_ABANDONED = "the training process ended without closing the dump"


def main(settings: dict[str, Any]) -> None:
    """Write one dump; `settings` name the descriptors and what the store needs.

    Signals that end a training are not for this process: it ends after the training has.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    memory = SharedMemory(settings["memory"], settings["limit"])
    manifest = Manifest(settings["run"], settings["rank"], settings["started"])
    manifest.samples = settings["form"][1]
    form = FileForm(*settings["form"])
    plan = StorePlan(settings["net_name"], settings["categories"], settings["packs"], form)
    store = Store(Path(settings["root"]), plan, manifest, "w")
    worker = Worker(store, memory, settings["reply"], settings["lock"], settings["saves"])
    for burst in Receiver(memory, settings["bell"]).bursts():
        for record in burst:
            worker.handle(record)
            if worker.closed:
                return
        worker.settle()
    worker.close(_ABANDONED)


class Worker:
    """Knows the labels and kinds that were introduced, and writes into the store."""

    def __init__(
        self, store: Store, memory: SharedMemory, reply: int, lock: int, saves: bool
    ) -> None:
        self.closed = False
        self._store = store
        self._memory = memory
        self._reply = reply
        self._lock = lock
        self._saves = saves
        self._failure = ""
        self._lost = 0
        self._names: list[str] = []
        self._text = ""
        self._job = 0
        self._writes = ParallelWrites()
        self._saved: dict[int, tuple[str, Future[None] | None]] = {}
        self._labels: dict[int, Label] = {}
        self._kinds: dict[int, tuple[StoredType, str, tuple[int, ...], bool]] = {}
        self._row_kinds: dict[int, ValueType] = {}
        self._actions: dict[str, Callable[..., None]] = {
            "value": self._value,
            "label": self._label,
            "kind": self._kind,
            "adopt": self._adopt,
            "row_kind": self._row_kind,
            "row": self._row,
            "rows": self._rows,
            "line": self._line,
            "text": self._add_text,
            "skip": store.manifest.skip,
            "order": self._order,
            "finish": self._finish,
            "describe": store.describe,
            "close": self.close,
        }

    def handle(self, record: Record) -> None:
        """Do what a record says; after a failure, only count what is lost."""
        tag, *rest = record
        try:
            if not self._failure or tag == "close":
                self._actions[tag](*rest)
            elif tag in ("value", "adopt"):
                self._lost += 1
        except Exception as error:  # noqa: BLE001 - told to the training process
            self._fail(describe(error))
        if tag in ("value", "rows"):
            self._job = rest[0]
            self._count_done()

    def settle(self) -> None:
        """Return when everything that was handed over so far is on disk."""
        try:
            self._writes.wait(self._tell_done)
            self._store.flush()
        except Exception as error:  # noqa: BLE001 - told to the training process
            self._fail(describe(error))
        self._count_done()

    def _count_done(self) -> None:
        try:
            self._tell_done(self._writes.done_until(self._job))
        except Exception as error:  # noqa: BLE001 - told to the training process
            self._fail(describe(error))

    def _tell_done(self, job: int) -> None:
        self._memory.counters[DONE] = job

    def close(self, failure: str) -> None:
        """Finish the dump and tell how it went."""
        self.closed = True
        self.settle()
        failure = self._failure or failure
        self._store.close(failure, self._lost)
        os.close(self._lock)
        manifest = self._store.manifest
        self._tell({"outcome": [len(manifest.iterations), manifest.summary(), failure]})

    def _fail(self, failure: str) -> None:
        if self._failure:
            return
        self._failure = failure
        self._lost += 1
        self._store.fail(failure, self._lost)
        self._tell({"failure": failure})
        self._memory.counters[FAILED] = 1

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            os.write(self._reply, json.dumps(message).encode() + b"\n")

    def _label(self, number: int, prefix: str, head: str, name: str) -> None:
        self._labels[number] = Label(number, prefix, head, name)

    def _kind(
        self,
        number: int,
        kind: tuple[Any, ...],
        dtype: str,
        shape: tuple[int, ...],
        fortran: bool,
    ) -> None:
        self._kinds[number] = StoredType(*kind), dtype, shape, fortran

    def _line(self, graph: int, iteration: int, table: str, header: str, line: str) -> None:
        self._store.add_line(DumpFolder(graph, iteration), table, header, line)

    def _add_text(self, graph: int, iteration: int, name: str, text: str, is_last: bool) -> None:
        self._text += text
        if is_last:
            text, self._text = self._text, ""
            self._store.text(DumpFolder(graph, iteration), name, text)

    def _row_kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        self._row_kinds[number] = ValueType(dtype, shape)

    def _finish(self, iteration: int, complete: bool, graphs: list[int], passes: list[int]) -> None:
        self.settle()
        self._saved.clear()
        self._store.finish(iteration, complete, graphs, passes)

    def _order(self, graph: int, names: list[str], is_last: bool) -> None:
        self._names += names
        if is_last:
            names, self._names = self._names, []
            self._store.order(graph, names)

    def _value(
        self,
        job: int,
        graph: int,
        iteration: int,
        label: int,
        task: int,
        stream: int,
        time_us: int,
        io: str,
        slot: int,
        start: int,
        number: int,
        raw_bytes: int,
        repeats: bool,
        measures: bool,
    ) -> None:
        kind, dtype, shape, fortran = self._kinds[number]
        place = DumpFolder(graph, iteration)
        subject = Subject(self._labels[label], Moment(task, stream, time_us, io, slot), kind)
        array = self._memory.array(dtype, shape, fortran, start)
        if self._saves:
            saved = dense(self._store.form.sample(array))
            self._save(job, place, self._store.path(place, subject), saved, start, repeats)
        if measures:
            raw_start = start + aligned(array.nbytes)
            raw = self._memory.array("u1", (raw_bytes,), False, raw_start) if raw_bytes else None
            self._store.measure(place, subject, array, raw)

    def _save(
        self, job: int, place: DumpFolder, path: str, array: Array, start: int, repeats: bool
    ) -> None:
        """Save a value that begins at `start`; if it repeats one, that was saved in this step."""
        saved = self._saved.get(start) if repeats else None
        if saved is not None:
            self._repeat(place, path, array, *saved)
        elif array.nbytes < LARGE or self._store.packs(place):
            self._store.write(place, path, array)
            self._saved[start] = path, None
        else:
            write = partial(self._store.write, place, path, array)
            self._saved[start] = path, self._writes.begin(job, write)

    def _repeat(
        self, place: DumpFolder, path: str, array: Array, saved: str, writing: Future[None] | None
    ) -> None:
        if writing is not None:
            writing.result()
        self._store.repeat(place, path, array, saved)

    def _adopt(
        self,
        graph: int,
        iteration: int,
        label: int,
        task: int,
        stream: int,
        time_us: int,
        io: str,
        slot: int,
        kind: tuple[Any, ...],
        temporary: str,
        size: int,
    ) -> None:
        subject = self._subject(label, Moment(task, stream, time_us, io, slot), kind)
        self._store.adopt(DumpFolder(graph, iteration), subject, temporary, size)

    def _row(
        self,
        graph: int,
        iteration: int,
        label: int,
        task: int,
        stream: int,
        time_us: int,
        io: str,
        slot: int,
        kind: tuple[Any, ...],
        row: tuple[Any, ...],
        digests: Sequence[str],
    ) -> None:
        subject = self._subject(label, Moment(task, stream, time_us, io, slot), kind)
        self._store.add_row(DumpFolder(graph, iteration), subject, Row(*row), digests)

    def _subject(self, label: int, moment: Moment, kind: tuple[Any, ...]) -> Subject:
        return Subject(self._labels[label], moment, StoredType(*kind))

    def _rows(self, job: int, graph: int, iteration: int, start: int, count: int) -> None:
        arrays = self._memory.rows(start, count)
        place = DumpFolder(graph, iteration)
        self._store.add_rows(TableRows(place, *arrays, self._labels, self._row_kinds))

"""Writing in the training thread: everything is on disk when the call returns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from opscope.dump.format.subject import Sighting, Subject
from opscope.dump.format.table_rows import TableRows
from opscope.dump.format.values import read
from opscope.dump.layout import DumpFolder
from opscope.dump.transport.store import Store
from opscope.dump.transport.writer import WritingEnd
from opscope.events import Source


class DirectWriter:
    """Writes at once."""

    def __init__(self, store: Store, saves: bool) -> None:
        self._store = store
        self._saves = saves
        self._lock = threading.Lock()

    def value(
        self,
        seen: Sighting,
        tensor: Any,
        source: Source | None,
        changing: bool,
        measures: bool,
    ) -> str:
        place, label, moment = seen
        store = self._store
        reading = read(tensor, store.form, measures, bool(store.columns.algorithms))
        if isinstance(reading, str):
            return reading
        subject = Subject(label, moment, reading.kind)
        with self._lock:
            if self._saves:
                self._store.save(place, subject, reading.array)
            if measures:
                self._store.measure(place, subject, reading.array, reading.raw)
                self._store.flush()
        return ""

    def rows(self, batch: TableRows) -> None:
        with self._lock:
            self._store.add_rows(batch)  # they come at the end of a step: `finish` writes them

    def line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        with self._lock:
            self._store.add_line(place, table, header, line)
            self._store.flush()

    def text(self, place: DumpFolder, name: str, text: str) -> None:
        with self._lock:
            self._store.text(place, name, text)

    def skip(self, name: str, io: str, slot: int, reason: str) -> None:
        self._store.manifest.skip(name, io, slot, reason)

    def order(self, graph: int, names: Sequence[str]) -> None:
        self._store.order(graph, names)

    def finish(
        self, iteration: int, complete: bool, graphs: Sequence[int], passes: Sequence[int] = ()
    ) -> None:
        with self._lock:
            self._store.finish(iteration, complete, graphs, passes)

    def describe(self, description: str) -> None:
        self._store.describe(description)

    def fail(self, failure: str) -> None:
        self._store.fail(failure, lost=1)

    def close(self, failure: str) -> WritingEnd:
        self._store.close(failure, lost=int(bool(failure)))
        manifest = self._store.manifest
        return WritingEnd(len(manifest.iterations), manifest.summary(), failure)

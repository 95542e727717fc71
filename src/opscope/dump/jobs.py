"""The pieces of writing: a value, rows that are ready, the end of an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opscope.dump.digest import digest
from opscope.dump.npy import Array
from opscope.dump.pending import Held
from opscope.dump.store import Store
from opscope.dump.subject import Label, Place, Subject
from opscope.events import Node, ValueStats
from opscope.stats.numpy_stats import row_of


@dataclass(slots=True)
class ValueJob:
    """Writes the file of a value, its row computed from it, or both."""

    store: Store
    place: Place
    subject: Subject
    held: Held
    saves: bool
    measures: bool

    def run(self) -> None:
        array = self.held.array
        assert array is not None
        if self.saves:
            self.store.save(self.place, self.subject, array)
        if self.measures:
            self._add_row(array)

    def _add_row(self, array: Array) -> None:
        data = array if self.held.raw is None else self.held.raw
        digests = [digest(algorithm, data) for algorithm in self.store.columns.algorithms]
        self.store.add_row(self.place, self.subject, row_of(array), digests)


@dataclass(slots=True)
class RowsJob:
    """Writes rows that came ready."""

    store: Store
    rows: Sequence[tuple[Place, Label, ValueStats]]
    held: Held

    def run(self) -> None:
        for place, label, value in self.rows:
            self.store.add_row(place, _subject_of(label, value), value.row)


@dataclass(slots=True)
class FinishJob:
    """Ends an iteration after everything of it."""

    store: Store
    iteration: int
    complete: bool
    orders: Mapping[int, Sequence[Node]]
    held: Held

    def run(self) -> None:
        self.store.finish(self.iteration, self.complete, self.orders)


def _subject_of(label: Label, value: ValueStats) -> Subject:
    call, io, slot, dtype, shape, _ = value
    return Subject(label, call.index, call.stream, call.time_us, io.value, slot, dtype, shape)

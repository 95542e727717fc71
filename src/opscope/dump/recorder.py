"""Turns values, rows and step ends into jobs; runs in the training thread, once per value."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opscope.dump.jobs import FinishJob, RowsJob, ValueJob
from opscope.dump.pending import Held
from opscope.dump.store import Store
from opscope.dump.subject import Label, Place, Subject
from opscope.dump.values import key_of, output_of, read
from opscope.dump.writers import Writer
from opscope.events import IO, Call, Node, Source, ValueStats
from opscope.messages import say_once
from opscope.stats.torch_values import dtype_name, shape_of

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings

_ROW_BYTES = 500


class Recorder:
    """Has values and rows written by `writer` into `store`."""

    def __init__(self, settings: DumpSettings, store: Store, writer: Writer) -> None:
        self.root = store.root
        self.manifest = store.manifest
        self._store = store
        self._writer = writer
        self._saves = settings.saves_tensors
        self._statistics = settings.saves_statistics
        self._digests = settings.saves_statistics and bool(store.columns.algorithms)

    def input(
        self, place: Place, label: Label, call: Call, slot: int, tensor: Any, source: Source | None
    ) -> None:
        """An input, which may have been copied already as the output that it is."""
        key = key_of(tensor, source) if self._writer.shares else None
        held = self._writer.find(key) if key else None
        if held is None:
            held = self._hold(label, IO.INPUT, slot, tensor, key)
        if held is not None:
            subject = _subject(label, call, IO.INPUT, slot, tensor)
            self._submit(place, subject, held, self._digests)

    def output(self, place: Place, label: Label, call: Call, slot: int, tensor: Any) -> None:
        """An output, as it is now."""
        key = key_of(tensor, output_of(call.node, slot)) if self._writer.shares else None
        held = self._hold(label, IO.OUTPUT, slot, tensor, key)
        if held is not None:
            subject = _subject(label, call, IO.OUTPUT, slot, tensor)
            self._submit(place, subject, held, self._digests)

    def parameter(self, place: Place, label: Label, time_us: int, tensor: Any) -> None:
        """A parameter or buffer as it is used in the step."""
        held = self._hold(label, IO.OUTPUT, 0, tensor, None)
        if held is not None:
            described = dtype_name(tensor), shape_of(tensor)
            subject = Subject(label, 0, 0, time_us, IO.OUTPUT.value, 0, *described)
            self._submit(place, subject, held, self._statistics)

    def rows(self, rows: Sequence[tuple[Place, Label, ValueStats]]) -> None:
        """Rows that are ready."""
        held = self._writer.reserve(_ROW_BYTES * len(rows))
        if held is not None:
            self._writer.submit(RowsJob(self._store, rows, held))

    def finish(self, iteration: int, complete: bool, orders: Mapping[int, Sequence[Node]]) -> None:
        """A step has ended."""
        held = self._writer.reserve(0)
        if held is not None:
            self._writer.submit(FinishJob(self._store, iteration, complete, orders, held))
        self._writer.step_over()

    def note_failure(self, failure: str) -> None:
        """Say in the manifest that the dump ended early, if that can be written."""
        self.manifest.finish(failure, self._writer.lost)
        with contextlib.suppress(OSError):
            self._store.write_manifest()

    def close(self, failure: str) -> None:
        """Write what is waiting and then the manifest."""
        self._writer.close()
        self.manifest.finish(failure, self._writer.lost)
        self._store.close()

    def _hold(self, label: Label, io: IO, slot: int, tensor: Any, key: Any) -> Held | None:
        reading = read(tensor, self._digests)
        if not isinstance(reading, str):
            return self._writer.hold(key, reading)
        self.manifest.skip(label.name, io.value, slot, reading)
        say_once(
            f"dump: {reading} are not saved, the first one is {io} {slot} of {label.name};"
            " the manifest counts them",
            key=f"dump cannot save {reading}",
        )
        return None

    def _submit(self, place: Place, subject: Subject, held: Held, measures: bool) -> None:
        self._writer.submit(ValueJob(self._store, place, subject, held, self._saves, measures))


def _subject(label: Label, call: Call, io: IO, slot: int, tensor: Any) -> Subject:
    return Subject(
        label,
        call.index,
        call.stream,
        call.time_us,
        io.value,
        slot,
        dtype_name(tensor),
        shape_of(tensor),
    )

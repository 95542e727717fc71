"""Rows as the pipeline delivers them, made of values by hand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from opscope.events import IO, Node, Sink, ValueStats
from opscope.rows import Rows, ValueTypes
from opscope.stats.memory import records_in
from opscope.stats.record import HEAD, INPUT, OUTPUT, ROW_BYTES, VALID, write_numbers
from opscope.stats.row import Row


def record_of(row: Row, *head: int) -> bytearray:
    """One valid record; `head` is io, kind, slot, step, node, call, shape."""
    buffer = bytearray(ROW_BYTES)
    HEAD.pack_into(buffer, 0, VALID, *head)
    write_numbers(buffer, 0, row)
    return buffer


class MadeRows:
    """Delivers values to a sink, whose kinds it introduces."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kinds = ValueTypes()

    def deliver(self, values: Sequence[ValueStats]) -> None:
        """What the pipeline does with the rows of a step."""
        self._sink.stats(self._rows(values))

    def _rows(self, values: Sequence[ValueStats]) -> Rows:
        buffer = bytearray()
        moments = array("q")
        nodes: dict[int, Node] = {}
        for call, io, slot, dtype, shape, row in values:
            nodes[call.node.id] = call.node
            moments.extend((call.index, call.stream, call.time_us))
            side = INPUT if io is IO.INPUT else OUTPUT
            number = self._kind(dtype, shape)
            buffer += record_of(row, side, 0, slot, call.step, call.node.id, call.index, number)
        records = records_in(buffer, 0, len(buffer))
        return Rows(records, None, nodes, self._kinds.by_number, moments)  # type: ignore[arg-type]

    def _kind(self, dtype: str, shape: tuple[int, ...]) -> int:
        number = self._kinds.number_of.get((dtype, shape))
        if number is None:
            number = self._kinds.add((dtype, shape))
            self._sink.kind(number, dtype, shape)
        return number

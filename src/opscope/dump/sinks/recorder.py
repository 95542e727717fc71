"""Turns events into what is to be written; runs in the training thread, once per value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opscope.dump.format import metadata
from opscope.dump.format.subject import Label, Moment, Sighting
from opscope.dump.format.table_rows import TableRows
from opscope.dump.format.values import output_of
from opscope.dump.layout import CONSTANTS, DumpFolder
from opscope.dump.selection.wanted import measures_values, rows_of_parameters
from opscope.dump.transport.writer import Writer, WritingEnd
from opscope.events import IO, Call, Node, Source
from opscope.messages import say_once

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings

_INPUT, _OUTPUT = IO.INPUT.value, IO.OUTPUT.value

_PASSES = 1000
"""The manifest says of so many passes of a step where they begin."""


class DumpRecorder:
    """Has values, rows and step ends written by `writer`."""

    def __init__(self, settings: DumpSettings, writer: Writer) -> None:
        self._writer = writer
        self._measures = measures_values(settings)
        ready = rows_of_parameters(settings)
        self._measures_parameters = settings.saves_statistics and not ready
        self._orders: dict[int, list[Node]] = {}
        self._described = False
        self._call: Call | None = None
        self._inputs: set[int] = set()

    def input(
        self,
        place: DumpFolder,
        label: Label,
        call: Call,
        slot: int,
        tensor: Any,
        source: Source | None,
        original: Any = None,
    ) -> None:
        """Write an input as it was before its operator; `tensor` may be a copy of `original`."""
        if call is not self._call:
            self._call, self._inputs = call, set()
        self._inputs.add(id(tensor if original is None else original))
        moment = Moment(call.index, call.stream, call.time_us, _INPUT, slot)
        self._value(Sighting(place, label, moment), tensor, source, False, self._measures)

    def output(self, place: DumpFolder, label: Label, call: Call, slot: int, tensor: Any) -> None:
        """Write an output, right after its operator ran."""
        moment = Moment(call.index, call.stream, call.time_us, _OUTPUT, slot)
        source = output_of(call.node, slot)
        changing = call is self._call and id(tensor) in self._inputs
        self._value(Sighting(place, label, moment), tensor, source, changing, self._measures)

    def parameter(
        self, place: DumpFolder, label: Label, time_us: int, tensor: Any, source: Source
    ) -> None:
        """Write a parameter or buffer as it is used in the step."""
        seen = Sighting(place, label, Moment(0, 0, time_us, _OUTPUT, 0))
        self._value(seen, tensor, source, False, self._measures_parameters)

    def constant(self, graph: int, label: Label, time_us: int, tensor: Any) -> None:
        """Write a tensor from outside."""
        seen = Sighting(DumpFolder(graph, CONSTANTS), label, Moment(0, 0, time_us, _OUTPUT, 0))
        self._value(seen, tensor, None, False, False)

    def arguments(self, place: DumpFolder, label: Label, arguments: Mapping[str, str]) -> None:
        """Write the arguments of an operator that are no tensors."""
        text = json.dumps(arguments, indent=4, ensure_ascii=False)
        self._writer.text(place, f"{label.prefix}.json", text)

    def line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        """Write a line of a table of an iteration."""
        self._writer.line(place, table, header, line)

    def rows(self, batch: TableRows) -> None:
        """Write rows that are ready."""
        self._writer.rows(batch)

    def finish(
        self,
        iteration: int,
        complete: bool,
        orders: Mapping[int, list[Node]],
        passes: Sequence[int] = (),
    ) -> None:
        """Finish a step; `passes` are as `Calls` has them."""
        for graph, nodes in orders.items():
            if self._orders.get(graph) != nodes:
                self._orders[graph] = nodes
                self._writer.order(graph, [node.name for node in nodes])
        if not self._described:
            self._described = True
            self._writer.describe(metadata.config_json())
        self._writer.finish(iteration, complete, list(orders), passes[: 2 * _PASSES])

    def fail(self, failure: str) -> None:
        """Note that the dump ends early."""
        self._writer.fail(failure)

    def close(self, failure: str) -> WritingEnd:
        """Return when everything is written."""
        return self._writer.close(failure)

    def _value(
        self, seen: Sighting, tensor: Any, source: Source | None, changing: bool, measures: bool
    ) -> None:
        reason = self._writer.value(seen, tensor, source, changing, measures)
        if not reason:
            return
        label, moment = seen.label, seen.moment
        self._writer.skip(label.name, moment.io, moment.slot, reason)
        say_once(
            f"dump: {reason} are not saved, the first one is {moment.io} {moment.slot} of"
            f" {label.name}; the manifest counts them",
            key=f"dump cannot save {reason}",
        )

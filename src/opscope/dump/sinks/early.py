"""Keeps what happens before the rank is known, and with it the directory, to write it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opscope.dump.format.subject import Label
from opscope.dump.format.table_rows import TableRows
from opscope.dump.layout import DumpFolder
from opscope.dump.sinks.recorder import DumpRecorder
from opscope.events import Call, Node, Source
from opscope.messages import say_once
from opscope.stats.torch_values import unsupported_reason

DEFAULT_LIMIT = 256 * 2**20


class EarlyRecorder:
    """Keeps events with copies of their tensors, up to `limit` bytes."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._room = limit
        self._events: list[tuple[str, tuple[Any, ...]]] = []

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
        """Keep an input as it was before its operator ran."""
        if self._fits(tensor):
            self._keep("input", place, label, call, slot, _copy(tensor), source)

    def output(self, place: DumpFolder, label: Label, call: Call, slot: int, tensor: Any) -> None:
        """Keep an output, right after its operator ran."""
        if self._fits(tensor):
            self._keep("output", place, label, call, slot, _copy(tensor))

    def parameter(
        self, place: DumpFolder, label: Label, time_us: int, tensor: Any, source: Source
    ) -> None:
        """Keep a parameter or buffer as it is used in the step."""
        if self._fits(tensor):
            self._keep("parameter", place, label, time_us, _copy(tensor), source)

    def constant(self, graph: int, label: Label, time_us: int, tensor: Any) -> None:
        """Keep a tensor from outside."""
        if self._fits(tensor):
            self._keep("constant", graph, label, time_us, _copy(tensor))

    def arguments(self, place: DumpFolder, label: Label, arguments: Mapping[str, str]) -> None:
        """Keep the arguments of an operator that are no tensors."""
        self._keep("arguments", place, label, arguments)

    def line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        """Keep a line of a table of an iteration."""
        self._keep("line", place, table, header, line)

    def rows(self, batch: TableRows) -> None:
        """Keep rows that are ready; their memory is the batch's own."""
        self._keep("rows", batch)

    def finish(
        self,
        iteration: int,
        complete: bool,
        orders: Mapping[int, list[Node]],
        passes: Sequence[int] = (),
    ) -> None:
        """Keep the end of a step."""
        self._keep("finish", iteration, complete, orders, passes)

    def replay(self, recorder: DumpRecorder) -> None:
        """Tell everything to the one that writes."""
        for name, arguments in self._events:
            getattr(recorder, name)(*arguments)
        self._events.clear()

    def _keep(self, name: str, *arguments: Any) -> None:
        self._events.append((name, arguments))

    def _fits(self, tensor: Any) -> bool:
        if not unsupported_reason(tensor):
            self._room -= tensor.numel() * tensor.element_size()
        if self._room < 0:
            say_once("dump: the setup is too large to keep; the rest of it is not dumped")
        return self._room >= 0


def _copy(tensor: Any) -> Any:
    return tensor if unsupported_reason(tensor) else tensor.detach().cpu().clone()

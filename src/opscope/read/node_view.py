"""Everything a recording knows about one node, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Output, Outside, Source
from opscope.messages import say_once
from opscope.read.recording import RankReader, Recording
from opscope.read.value import Value
from opscope.stats.record import INPUT
from opscope.stats.row import Row

Data = dict[str, Any]


def node_view(
    recording: Recording, rank: RankReader, node: Node, steps: Collection[int] | None = None
) -> Data:
    """The node, its stack with code, its inputs and outputs, each with its rows."""
    feeding = {source.node.id for source in node.sources if not isinstance(source, Outside)}
    values = rank.values({node.id} | feeding, steps)
    between = [] if steps is not None else [_gap(record) for record in rank.between({node.id})]
    view = _View(node, values, between)
    return {
        "rank": rank.number,
        **_facts(node),
        "stack": [{**f._asdict(), "code": recording.code(f)} for f in node.stack.frames],
        "inputs": [view.input(slot) for slot in view.slots(IO.INPUT, len(node.sources))],
        "outputs": [view.output(slot) for slot in view.slots(IO.OUTPUT, len(node.outputs))],
    }


def _facts(node: Node) -> Data:
    return {
        "node": node.id,
        "graph": node.graph,
        "name": node.name,
        "op_type": node.op_type,
        "op": node.op,
        "scope": node.scope,
        "module_class": node.module_class,
        "phase": str(node.phase),
        "forward": node.forward.name if node.forward else None,
        "parameter": node.parameter,
        "gradient_of": node.gradient_of,
        "arguments": node.arguments,
    }


class _View:
    """The values of a node and of those that feed it, by whose they are."""

    def __init__(self, node: Node, values: Sequence[Value], between: Sequence[Data]) -> None:
        self._node = node
        self._between = between
        self._values: dict[tuple[int, IO, int], list[Value]] = {}
        for value in values:
            self._values.setdefault((value.node.id, value.io, value.slot), []).append(value)

    def slots(self, io: IO, known: int) -> list[int]:
        """The slots of a side: those that are known, and those with values."""
        found = {slot for node, side, slot in self._values if node == self._node.id and side is io}
        return sorted({*range(known), *found})

    def input(self, slot: int) -> Data:
        """One input; if it has no rows of its own, those of the output it is."""
        sources = self._node.sources
        source = sources[slot] if slot < len(sources) else None
        rows = self._rows(self._node, IO.INPUT, slot)
        if not rows and source is not None and not isinstance(source, Outside):
            rows = self._rows(source.node, IO.OUTPUT, source.slot)
        return {
            "io": str(IO.INPUT),
            "slot": slot,
            "source": None if source is None else _source(source),
            "uninitialised": isinstance(source, Output) and source.uninitialised,
            "rows": rows,
            "between": self._gaps(IO.INPUT, slot),
        }

    def output(self, slot: int) -> Data:
        """One output."""
        outputs = self._node.outputs
        return {
            "io": str(IO.OUTPUT),
            "slot": slot,
            "parameter": outputs[slot].parameter if slot < len(outputs) else "",
            "uninitialised": slot < len(outputs) and outputs[slot].uninitialised,
            "rows": self._rows(self._node, IO.OUTPUT, slot),
            "between": self._gaps(IO.OUTPUT, slot),
        }

    def _rows(self, node: Node, io: IO, slot: int) -> list[Data]:
        return [_row(value) for value in self._values.get((node.id, io, slot), ())]

    def _gaps(self, io: IO, slot: int) -> list[Data]:
        """Return what was left out of this value, in the order of steps."""
        mine = [gap for gap in self._between if (gap["io"], gap["slot"]) == (str(io), slot)]
        return sorted(
            ({k: v for k, v in gap.items() if k not in ("io", "slot")} for gap in mine),
            key=lambda gap: (gap["first"], gap["last"]),
        )


def _source(source: Source) -> Data:
    if isinstance(source, Outside):
        return source._asdict()
    return {"node": source.node.id, "name": source.node.name, "slot": source.slot}


def _row(value: Value) -> Data:
    return {
        "step": value.step,
        "pass": value.pass_number,
        "call": value.call,
        "dtype": value.dtype,
        "shape": None if value.shape is None else list(value.shape),
        **_numbers(value),
        "extra": dict(value.extra),
    }


def _numbers(value: Value) -> Data:
    """The numbers of a value; None where they cannot be had."""
    try:
        return value.stats()._asdict()
    except OpscopeError as error:
        say_once(str(error))
        return dict.fromkeys(Row._fields)


_ENDS = (("min", "max"), ("min_int", "max_int"), ("min_uint", "max_uint"))


def _gap(record: Any) -> Data:
    """One record of extremes."""
    low, high = _ENDS[int(record["kind"]) % len(_ENDS)]
    return {
        "io": str(IO.INPUT if record["io"] == INPUT else IO.OUTPUT),
        "slot": int(record["slot"]),
        **{name: int(record[name]) for name in ("first", "last", "rows")},
        "min": record[low].item(),
        "max": record[high].item(),
        **{name: int(record[name]) for name in ("nan", "posinf", "neginf")},
    }

"""Everything a run knows about one node, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opscope.events import IO, Node, Outside, Source
from opscope.read.row_store import Records
from opscope.read.run import Rank, Run
from opscope.stats.record import INPUT, OUTPUT, row_from

Data = dict[str, Any]


def node_view(run: Run, rank: Rank, node: Node, steps: Collection[int] | None = None) -> Data:
    """The node, its stack with code, its inputs and outputs, each with its rows."""
    feeding = {source.node.id for source in node.sources if not isinstance(source, Outside)}
    rows = rank.stats({node.id} | feeding, steps)
    return {
        "rank": rank.number,
        **_facts(node),
        "stack": [{**frame._asdict(), "code": run.code(frame)} for frame in node.stack.frames],
        "inputs": [_input(rank, rows, node, slot) for slot in range(len(node.sources))],
        "outputs": [_output(rank, rows, node, slot) for slot in _output_slots(rows, node)],
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


def _input(rank: Rank, rows: Records, node: Node, slot: int) -> Data:
    source = node.sources[slot]
    mine = _rows(rank, rows, node, INPUT, slot)
    if not mine and not isinstance(source, Outside):
        mine = _rows(rank, rows, source.node, OUTPUT, source.slot)
    return {"io": str(IO.INPUT), "slot": slot, "source": _source(source), "rows": mine}


def _output(rank: Rank, rows: Records, node: Node, slot: int) -> Data:
    parameter = node.outputs[slot].parameter if slot < len(node.outputs) else ""
    return {
        "io": str(IO.OUTPUT),
        "slot": slot,
        "parameter": parameter,
        "rows": _rows(rank, rows, node, OUTPUT, slot),
    }


def _output_slots(rows: Records, node: Node) -> list[int]:
    of_node = rows[(rows["node"] == node.id) & (rows["io"] == OUTPUT)]
    return sorted({*range(len(node.outputs)), *of_node["slot"].tolist()})


def _source(source: Source) -> Data:
    if isinstance(source, Outside):
        return source._asdict()
    return {"node": source.node.id, "name": source.node.name, "slot": source.slot}


def _rows(rank: Rank, rows: Records, node: Node, io: int, slot: int) -> list[Data]:
    chosen = rows[(rows["node"] == node.id) & (rows["io"] == io) & (rows["slot"] == slot)]
    return [_row(rank, record) for record in chosen]


def _row(rank: Rank, record: Any) -> Data:
    kind = rank.types.get(int(record["shape"]))
    return {
        "step": int(record["step"]),
        "call": int(record["call"]),
        "dtype": kind.dtype if kind else None,
        "shape": list(kind.shape) if kind else None,
        **row_from(record)._asdict(),
    }

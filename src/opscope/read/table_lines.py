"""The small tables of a recording, line by line: nodes, steps, stacks, types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from opscope.events import Node, StepRecord
from opscope.read.recording import RankReader, Recording
from opscope.rundir.jsonlines import dumps

COLUMNS = {
    "nodes": {
        "rank": "INTEGER",
        "node": "UINTEGER",
        "graph": "INTEGER",
        "name": "VARCHAR",
        "op_type": "VARCHAR",
        "op": "VARCHAR",
        "scope": "VARCHAR",
        "module_class": "VARCHAR",
        "phase": "VARCHAR",
        "parameter": "VARCHAR",
        "gradient_of": "VARCHAR",
        "forward": "UINTEGER",
        "stack": "UINTEGER",
        "file": "VARCHAR",
        "line": "INTEGER",
        "function": "VARCHAR",
        "arguments": "VARCHAR",
    },
    "steps": {
        "rank": "INTEGER",
        "step": "INTEGER",
        "seconds": "DOUBLE",
        "operators": "INTEGER",
        "passes": "INTEGER",
        "skipped": "BOOLEAN",
        "complete": "BOOLEAN",
        "losses": "DOUBLE[]",
    },
    "stacks": {
        "rank": "INTEGER",
        "stack": "UINTEGER",
        "depth": "INTEGER",
        "file": "VARCHAR",
        "line": "INTEGER",
        "function": "VARCHAR",
        "user": "BOOLEAN",
        "code": "VARCHAR",
    },
    "types": {"rank": "INTEGER", "shape": "UINTEGER", "dtype": "VARCHAR", "dimensions": "VARCHAR"},
}


def lines_of(recording: Recording) -> dict[str, Iterator[tuple[Any, ...]]]:
    """The lines of each table, made when they are asked for."""
    ranks = recording.ranks.values()
    return {
        "nodes": (_node(rank, node) for rank in ranks for node in rank.nodes.values()),
        "steps": (_step(rank, step) for rank in ranks for step in rank.steps),
        "stacks": (line for rank in ranks for line in _frames(recording, rank)),
        "types": (
            (rank.number, shape, kind.dtype, str(list(kind.shape)))
            for rank in ranks
            for shape, kind in rank.types.items()
            if kind is not None
        ),
    }


def create_table(connection: Any, table: str, lines: list[tuple[Any, ...]]) -> None:
    """Make a table of lines."""
    columns = list(zip(*lines, strict=True)) or [()] * len(COLUMNS[table])
    raw = {name: _objects(column) for name, column in zip(COLUMNS[table], columns, strict=True)}
    casts = ", ".join(
        f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in COLUMNS[table].items()
    )
    connection.register("incoming", raw)
    connection.execute(f'CREATE TABLE "{table}" AS SELECT {casts} FROM incoming')
    connection.unregister("incoming")


def _objects(column: tuple[Any, ...]) -> Any:
    array = np.empty(len(column), dtype=object)
    array[:] = [_encodable(value) for value in column]
    return array


def _encodable(value: Any) -> Any:
    """Text that UTF-8 has no bytes for, such as names of files that are not UTF-8, escaped."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def _node(rank: RankReader, node: Node) -> tuple[Any, ...]:
    where = node.stack.where
    return (
        rank.number,
        node.id,
        node.graph,
        node.name,
        node.op_type,
        node.op,
        node.scope,
        node.module_class,
        str(node.phase),
        node.parameter or None,
        node.gradient_of or None,
        node.forward.id if node.forward else None,
        node.stack.id,
        where.file if where else None,
        where.line if where else None,
        where.function if where else None,
        dumps(node.arguments),
    )


def _step(rank: RankReader, step: StepRecord) -> tuple[Any, ...]:
    operators = len(step.calls)
    losses = str([loss.value for loss in step.losses])
    return (
        rank.number,
        step.step,
        None if math.isnan(step.seconds) else step.seconds,
        operators,
        step.calls.pass_count,
        step.skipped,
        step.complete,
        losses,
    )


def _frames(recording: Recording, rank: RankReader) -> Iterator[tuple[Any, ...]]:
    for stack in rank.stacks.values():
        for depth, frame in enumerate(stack.frames):
            yield (rank.number, stack.id, depth, *frame, recording.code(frame))

"""A run as SQL tables in an in-memory DuckDB: nodes, steps, stats, stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opscope.errors import OpscopeError
from opscope.events import Node, StepRecord
from opscope.read.run import Rank, Run
from opscope.rundir.jsonlines import dumps
from opscope.stats.record import ROW_DTYPE, joined
from opscope.stats.row import Row

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

_EXACT = "CASE kind WHEN 1 THEN {0}_int::HUGEINT WHEN 2 THEN {0}_uint::HUGEINT END AS {0}_int"
_NUMBER = "CASE kind WHEN 0 THEN {0} WHEN 1 THEN {0}_int::DOUBLE ELSE {0}_uint::DOUBLE END AS {0}"
_STATS = f"""
CREATE VIEW stats AS
SELECT r.rank, r.step, r.node, n.name, n.op_type, n.scope, n.phase, r.call,
       CASE r.io WHEN 1 THEN 'output' ELSE 'input' END AS io, r.slot,
       t.dtype, t.dimensions AS shape, r.count,
       {_NUMBER.format("min")}, {_NUMBER.format("max")},
       {", ".join(f"r.{name}" for name in Row._fields[3:])},
       {_EXACT.format("min")}, {_EXACT.format("max")}
FROM rows r
LEFT JOIN nodes n ON n.rank = r.rank AND n.node = r.node
LEFT JOIN types t ON t.rank = r.rank AND t.shape = r.shape
"""


def connect(run: Run) -> Any:
    """A DuckDB connection with the tables of a run; it can neither read nor write files."""
    connection = _duckdb().connect(config={"enable_external_access": "false"})
    # The rows come first: a run being written has the nodes of every row it has.
    connection.register("rows", _all_rows(run))
    for name, lines in _lines(run).items():
        _create(connection, name, list(lines))
    connection.execute("ALTER TABLE steps ADD COLUMN loss DOUBLE")
    connection.execute("UPDATE steps SET loss = losses[-1]")
    connection.execute(_STATS)
    return connection


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise OpscopeError("SQL needs DuckDB: pip install 'opscope[query]'") from None
    return duckdb


def _all_rows(run: Run) -> dict[str, Any]:
    """Columns that share memory with the rows where there is one rank."""
    parts = {rank.number: rank.stats() for rank in run.ranks.values()}
    rows = joined([*parts.values()])
    ranks = np.repeat([*parts] or [0], [len(part) for part in parts.values()] or [0])
    return {"rank": ranks.astype(np.int32), **{name: rows[name] for name in ROW_DTYPE.names or ()}}


def _lines(run: Run) -> dict[str, Iterator[tuple[Any, ...]]]:
    ranks = run.ranks.values()
    return {
        "nodes": (_node(rank, node) for rank in ranks for node in rank.nodes.values()),
        "steps": (_step(rank, step) for rank in ranks for step in rank.steps),
        "stacks": (line for rank in ranks for line in _frames(run, rank)),
        "types": (
            (rank.number, shape, kind.dtype, str(list(kind.shape)))
            for rank in ranks
            for shape, kind in rank.types.items()
        ),
    }


def _create(connection: Any, table: str, lines: list[tuple[Any, ...]]) -> None:
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


def _node(rank: Rank, node: Node) -> tuple[Any, ...]:
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


def _step(rank: Rank, step: StepRecord) -> tuple[Any, ...]:
    operators = sum(len(nodes) for nodes in step.orders.values())
    losses = str([loss.value for loss in step.losses])
    return (
        rank.number,
        step.step,
        step.seconds,
        operators,
        step.skipped,
        step.complete,
        losses,
    )


def _frames(run: Run, rank: Rank) -> Iterator[tuple[Any, ...]]:
    for stack in rank.stacks.values():
        for depth, frame in enumerate(stack.frames):
            yield (rank.number, stack.id, depth, *frame, run.code(frame))

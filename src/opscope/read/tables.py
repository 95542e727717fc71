"""A recording as SQL tables in DuckDB: nodes, steps, stats, extra_stats, gaps, stacks."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opscope.errors import OpscopeError
from opscope.read.question import Chosen, Question, choose, understand
from opscope.read.record_stream import RankRecords, RecordStream
from opscope.read.recording import RankReader, Recording
from opscope.read.table_lines import create_table, lines_of
from opscope.rundir.extra_files import record_type
from opscope.rundir.thinning import BETWEEN_DTYPE
from opscope.stats.record import ROW_DTYPE
from opscope.stats.row import Row

_EXACT = "CASE kind WHEN 1 THEN {0}_int::HUGEINT WHEN 2 THEN {0}_uint::HUGEINT END AS {0}_int"
_NUMBER = "CASE kind WHEN 0 THEN {0} WHEN 1 THEN {0}_int::DOUBLE ELSE {0}_uint::DOUBLE END AS {0}"
_SIDE = "CASE r.io WHEN 1 THEN 'output' ELSE 'input' END AS io"
_STATS = """
CREATE VIEW stats AS
SELECT r.rank, r.step, {pass_number}, r.node, n.name, n.op_type, n.scope, n.phase, r.call,
       {side}, r.slot,
       t.dtype, t.dimensions AS shape, r.count, {min}, {max}, {numbers}, {min_int}, {max_int}
FROM rows r
LEFT JOIN nodes n ON n.rank = r.rank AND n.node = r.node
LEFT JOIN types t ON t.rank = r.rank AND t.shape = r.shape
{passes}
"""
_PASSES = """
ASOF LEFT JOIN passes p ON p.rank = r.rank AND p.step = r.step AND p.call <= r.call
"""
_GAPS = f"""
CREATE VIEW gaps AS
SELECT r.rank, r.first, r.last, r.node, n.name, n.op_type, n.scope, n.phase, {_SIDE}, r.slot,
       r.rows, {_NUMBER.format("min")}, {_NUMBER.format("max")}, r.nan, r.posinf, r.neginf,
       {_EXACT.format("min")}, {_EXACT.format("max")}
FROM between_rows r LEFT JOIN nodes n ON n.rank = r.rank AND n.node = r.node
"""
_EXTRA_STATS = """
CREATE VIEW extra_stats AS
SELECT r.rank, r.step, {pass_number}, r.node, n.name, n.op_type, n.scope, n.phase, r.call,
       {side}, r.slot{numbers}
FROM extra_rows r
LEFT JOIN nodes n ON n.rank = r.rank AND n.node = r.node
{passes}
"""
_NEEDED = {
    "stats": {"rows", "nodes", "types"},
    "extra_stats": {"nodes"},
    "gaps": {"nodes", "between_rows"},
}
_TABLES = frozenset({"nodes", "steps", "stacks", "types", "rows", "stats", "extra_stats", "gaps"})
_KEYS = frozenset({"step", "node", "call", "io", "slot", "shape", "kind", "count"})
"""Columns of the rows that are always there: other columns are made of them."""
_UNSIGNED_OR_NOT = re.compile("_u?int$")
_COLUMNS = frozenset(Row._fields) | frozenset(
    {"rank", "step", "pass", "node", "name", "op_type", "scope", "phase", "call", "io", "slot"}
    | {"dtype", "shape", "min_int", "max_int"}
)
"""The columns of the statistics."""
_MEMORY = "112MiB"
"""The memory DuckDB takes for itself; what it must put aside goes to a temporary folder."""
_THREADS = 4
"""Each takes its share of that."""
_AT_A_TIME = 4096


class Tables:
    """The tables of a recording; a context manager. They can neither read nor write files.

    A question decides which tables are made, and which rows there are in them.
    """

    def __init__(self, recording: Recording, sql: str = "") -> None:
        duckdb = _duckdb()
        self._recording = recording
        self._streams: list[RecordStream] = []
        self._folder = tempfile.TemporaryDirectory(prefix="opscope-query-")
        settings = {
            "enable_external_access": "false",
            "memory_limit": _MEMORY,
            "threads": str(min(_THREADS, os.cpu_count() or 1)),
            "temp_directory": self._folder.name,
        }
        self.connection = duckdb.connect(config=settings)
        # A stream does not say how long it is, so the sides of a join stay as they are written:
        # else DuckDB may take all rows for the smaller side, and keep them.
        self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self.connection.execute("SET enable_progress_bar = false")  # it would be amid an answer
        question = understand(self.connection, sql) if sql else Question()
        self._make(question)

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *exc: object) -> None:
        self.connection.close()
        for stream in self._streams:
            stream.close()
        self._folder.cleanup()

    def ask(self, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """The names of an answer's columns, and its lines as they come."""
        duckdb = _duckdb()
        try:
            answer = self.connection.execute(sql)
        except duckdb.Error as error:
            raise OpscopeError(_without_blanks(str(error))) from None
        if answer is None or answer.description is None:
            raise OpscopeError("the SQL has no statement in it")
        return [column[0] for column in answer.description], self._lines(answer)

    def _lines(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        try:
            while lines := answer.fetchmany(_AT_A_TIME):
                yield from lines
        except _duckdb().Error as error:
            raise OpscopeError(_without_blanks(str(error))) from None

    def interrupt(self) -> None:
        """End what is being asked, from another thread."""
        self.connection.interrupt()

    def _make(self, question: Question) -> None:
        named = question.tables
        wanted = set(_TABLES if named is None or not named <= _TABLES else named)
        for name in tuple(wanted):
            wanted |= _NEEDED.get(name, set())
        ranks = list(self._recording.ranks.values())
        for rank in ranks:  # first: a run being written has the nodes of every row it has
            _ = rank.part_count if "rows" in wanted else 0
            _ = rank.extra_stats.meanings if "extra_stats" in wanted else {}
        for name, lines in lines_of(self._recording).items():
            if name in wanted:
                create_table(self.connection, name, list(lines))
        if "steps" in wanted:
            self.connection.execute("ALTER TABLE steps ADD COLUMN loss DOUBLE")
            self.connection.execute("UPDATE steps SET loss = losses[-1]")
        if "rows" in wanted:
            self._make_rows(question, ranks)
        has_passes = False
        if wanted & {"stats", "extra_stats"}:
            has_passes = _may_need(question, "pass") and self._make_passes(ranks)
        if "stats" in wanted:
            self.connection.execute(_stats_view(ranks, has_passes, _needed(question)))
        if "extra_stats" in wanted:
            self._make_extra_stats(ranks, has_passes)
        if "gaps" in wanted:
            self._make_gaps(ranks)

    def _make_rows(self, question: Question, ranks: Sequence[RankReader]) -> None:
        """Make a table of the rows, or of those that a question leaves of them."""
        chosen = Chosen(None, None)
        if question.conditions:
            self._make_row_steps(ranks)
            chosen = choose(self.connection, question)
        columns = {name: ROW_DTYPE[name] for name in _needed(question)}
        self._stream("rows", columns, lambda: _rows(ranks, chosen))

    def _stream(
        self,
        name: str,
        columns: Mapping[str, np.dtype[Any]],
        batches: Callable[[], Iterator[RankRecords]],
    ) -> None:
        """Make a view of records in which NaN, which stands for none, is null."""
        self._streams.append(RecordStream(columns, batches))
        self.connection.register(f"all_{name}", self._streams[-1])
        nulls = ", ".join(
            f'nullif("{column}", \'NaN\'::DOUBLE) AS "{column}"'
            for column, kind in columns.items()
            if kind.kind == "f"
        )
        replace = f"REPLACE ({nulls})" if nulls else ""
        self.connection.execute(f"CREATE VIEW {name} AS SELECT * {replace} FROM all_{name}")

    def _make_row_steps(self, ranks: Sequence[RankReader]) -> None:
        steps = [(rank.number, step) for rank in ranks for step in rank.recorded_steps]
        columns = np.array(steps, np.int32).reshape(-1, 2)
        raw = {"rank": columns[:, 0].copy(), "step": columns[:, 1].copy()}
        self.connection.register("row_steps", raw)

    def _make_passes(self, ranks: Sequence[RankReader]) -> bool:
        """A table of where passes begin; returns whether any step has several."""
        found = [
            (rank.number, record.step, call, number)
            for rank in ranks
            for record in rank.steps
            if record.calls.pass_count > 1
            for call, number in record.calls.begins()
        ]
        columns = np.array(found, np.int64).reshape(-1, 4)
        names = ("rank", "step", "call", "pass")
        self.connection.register("passes", {n: columns[:, i].copy() for i, n in enumerate(names)})
        return bool(found)

    def _make_extra_stats(self, ranks: Sequence[RankReader], has_passes: bool) -> None:
        """Make a table of the extra statistics; one that a rank does not have is null there."""
        names = list(dict.fromkeys(name for rank in ranks for name in rank.extra_stats.meanings))
        kind = record_type(names)
        self._stream(
            "extra_rows",
            {name: kind[name] for name in kind.names or ()},
            lambda: _extra_records(ranks, kind),
        )
        numbers = "".join(f', r."{name}"' for name in names)
        pass_number, passes = _pass_parts(has_passes)
        self.connection.execute(
            _EXTRA_STATS.format(side=_SIDE, numbers=numbers, pass_number=pass_number, passes=passes)
        )

    def _make_gaps(self, ranks: Sequence[RankReader]) -> None:
        columns = {name: BETWEEN_DTYPE[name] for name in BETWEEN_DTYPE.names or ()}
        self._stream("between_rows", columns, lambda: _extremes(ranks))
        self.connection.execute(_GAPS)


def _may_need(question: Question, column: str) -> bool:
    return question.columns is None or column in question.columns


def _needed(question: Question) -> list[str]:
    """The columns of the rows that a question may need."""
    everything = list(ROW_DTYPE.names or ())
    named = question.columns
    if named is None or not named <= _COLUMNS or "rows" in (question.tables or ()):
        return everything
    bases = {name.removesuffix("_int") for name in named}
    return [n for n in everything if n in _KEYS or _UNSIGNED_OR_NOT.sub("", n) in bases]


def _stats_view(ranks: Sequence[RankReader], has_passes: bool, columns: Collection[str]) -> str:
    """Numbers that a recording does not have, or nobody asks for, are null."""
    known = frozenset(columns).intersection(*(rank.known_numbers for rank in ranks))
    ends = {
        name: _NUMBER.format(name) if name in known else f"NULL::DOUBLE AS {name}"
        for name in ("min", "max")
    }
    exact = {
        f"{name}_int": _EXACT.format(name) if name in known else f"NULL::HUGEINT AS {name}_int"
        for name in ("min", "max")
    }
    numbers = [f"r.{n}" if n in known else f"NULL::DOUBLE AS {n}" for n in Row._fields[3:]]
    pass_number, passes = _pass_parts(has_passes)
    return _STATS.format(
        side=_SIDE,
        numbers=", ".join(numbers),
        pass_number=pass_number,
        passes=passes,
        **ends,
        **exact,
    )


def _pass_parts(has_passes: bool) -> tuple[str, str]:
    """The column of passes, and the join that it needs."""
    if has_passes:
        return 'coalesce(p.pass, 0)::INTEGER AS "pass"', _PASSES
    return '0 AS "pass"', ""


def _extra_records(ranks: Sequence[RankReader], kind: np.dtype[np.void]) -> Iterator[RankRecords]:
    """The extra statistics of all ranks as records of one type."""
    for rank in ranks:
        for records in rank.extra_stats.parts():
            found = np.full(len(records), np.array(_nothing(kind), kind))
            for name in records.dtype.names or ():
                found[name] = records[name]
            yield rank.number, found


def _nothing(kind: np.dtype[np.void]) -> tuple[float, ...]:
    """A record without numbers."""
    return tuple(np.nan if kind[name].kind == "f" else 0 for name in kind.names or ())


def _rows(ranks: Sequence[RankReader], chosen: Chosen) -> Iterator[RankRecords]:
    for rank in ranks:
        nodes = None if chosen.nodes is None else chosen.nodes.get(rank.number, set())
        steps = None if chosen.steps is None else chosen.steps.get(rank.number, set())
        for records in rank.parts_of_stats(nodes, steps):
            yield rank.number, records


def _extremes(ranks: Sequence[RankReader]) -> Iterator[RankRecords]:
    return ((rank.number, records) for rank in ranks for records in rank.parts_of_between())


def _without_blanks(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip())


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise OpscopeError("SQL needs DuckDB: pip install 'opscope[query]'") from None
    if int(duckdb.__version__.partition(".")[0]) < 2:
        raise OpscopeError(
            f"SQL needs DuckDB 2 or later, this is {duckdb.__version__}: "
            "pip install --upgrade 'opscope[query]'"
        )
    return duckdb

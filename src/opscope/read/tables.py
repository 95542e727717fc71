"""A recording as SQL tables in DuckDB: nodes, steps, stats, gaps, stacks."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opscope.errors import OpscopeError
from opscope.read.question import Chosen, Question, choose, understand
from opscope.read.recording import RankReader, Recording
from opscope.read.row_store import Records
from opscope.read.table_lines import create_table, lines_of
from opscope.rundir.thinning import BETWEEN_DTYPE, join_between
from opscope.stats.record import OUTPUT, ROW_DTYPE, UINT, VALID
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
_NEEDED = {"stats": {"rows", "nodes", "types"}, "gaps": {"nodes", "between_rows"}}
_TABLES = frozenset({"nodes", "steps", "stacks", "types", "rows", "stats", "gaps"})
Parts = Mapping[int, Sequence[Records]]
"""By rank, all its rows in parts."""
_MANY_ROWS = 1 << 20
"""Up to so many rows are read out of their files; more are looked at where they lie."""
_MEMORY = "136MiB"
"""What DuckDB takes for itself; what it must put aside goes to a temporary folder."""
_THREADS = 4
"""Each takes its share of that; one processor is left to give memory back."""
_EVERY_SECONDS = 0.01
_AT_A_TIME = 4096


class Tables:
    """The tables of a recording; a context manager. They can neither read nor write files.

    A question decides which tables are made, and which rows there are in them.
    """

    def __init__(self, recording: Recording, sql: str = "") -> None:
        duckdb = _duckdb()
        self._recording = recording
        self._done = threading.Event()
        self._helper = threading.Thread(target=self._give_back, daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="opscope-query-")
        settings = {
            "enable_external_access": "false",
            "memory_limit": _MEMORY,
            "threads": str(min(_THREADS, max(1, (os.cpu_count() or 1) - 1))),
            "temp_directory": self._folder.name,
        }
        self.connection = duckdb.connect(config=settings)
        question = understand(self.connection, sql) if sql else Question()
        self._make(question)

    def __enter__(self) -> Tables:
        self._helper.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._helper.join()
        self.connection.close()
        self._folder.cleanup()

    def ask(self, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """The names of an answer's columns, and its lines as they come."""
        duckdb = _duckdb()
        try:
            answer = self.connection.execute(sql)
        except duckdb.Error as error:
            raise OpscopeError(str(error)) from None
        if answer is None or answer.description is None:
            raise OpscopeError("the SQL has no statement in it")
        return [column[0] for column in answer.description], self._lines(answer)

    def _lines(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        try:
            while lines := answer.fetchmany(_AT_A_TIME):
                yield from lines
                self._release()
        except _duckdb().Error as error:
            raise OpscopeError(str(error)) from None

    def interrupt(self) -> None:
        """End what is being asked, from another thread."""
        self.connection.interrupt()

    def _give_back(self) -> None:
        """What a question has looked at does not stay in memory."""
        while not self._done.wait(_EVERY_SECONDS):
            self._release()

    def _release(self) -> None:
        for rank in self._recording.ranks.values():
            rank.release()

    def _make(self, question: Question) -> None:
        named = question.tables
        wanted = set(_TABLES if named is None or not named <= _TABLES else named)
        for name in tuple(wanted):
            wanted |= _NEEDED.get(name, set())
        ranks = list(self._recording.ranks.values())
        if "rows" in wanted:  # first: a run being written has the nodes of every row it has
            parts = {rank.number: rank.all_parts() for rank in ranks}
        for name, lines in lines_of(self._recording).items():
            if name in wanted:
                create_table(self.connection, name, list(lines))
        if "steps" in wanted:
            self.connection.execute("ALTER TABLE steps ADD COLUMN loss DOUBLE")
            self.connection.execute("UPDATE steps SET loss = losses[-1]")
        if "rows" in wanted:
            self._make_rows(question, ranks, parts)
        if "stats" in wanted:
            self.connection.execute(_stats_view(ranks, self._make_passes(ranks)))
        if "gaps" in wanted:
            self._make_gaps(ranks)

    def _make_rows(
        self,
        question: Question,
        ranks: Sequence[RankReader],
        parts: Mapping[int, Sequence[Records]],
    ) -> None:
        """The rows that matter if they are few, else all of them where they lie."""
        if question.conditions:
            self._make_row_steps(ranks)
            chosen = choose(self.connection, question)
            if _count(ranks, parts, chosen) <= _MANY_ROWS:
                parts = {rank.number: [_chosen_rows(rank, chosen)] for rank in ranks}
        selects: list[str] = []
        for rank, records in ((r, p) for r, of_rank in parts.items() for p in of_rank if len(p)):
            name = f"rows_{len(selects)}"
            self.connection.register(name, {n: records[n] for n in ROW_DTYPE.names or ()})
            sound = f"valid = {VALID} AND kind <= {UINT} AND io <= {OUTPUT}"
            selects.append(f"SELECT {rank}::INTEGER AS rank, * FROM {name} WHERE {sound}")
        if not selects:
            empty = np.empty(0, ROW_DTYPE)
            self.connection.register("no_rows", {n: empty[n] for n in ROW_DTYPE.names or ()})
            selects = ["SELECT 0::INTEGER AS rank, * FROM no_rows"]
        self.connection.execute("CREATE VIEW rows AS " + " UNION ALL ".join(selects))

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

    def _make_gaps(self, ranks: Sequence[RankReader]) -> None:
        found = {rank.number: rank.between() for rank in ranks}
        numbers = np.repeat([*found] or [0], [len(f) for f in found.values()] or [0])
        whole = join_between([*found.values()])
        raw = {"rank": numbers.astype(np.int32)}
        raw |= {name: whole[name] for name in BETWEEN_DTYPE.names or ()}
        self.connection.register("between_rows", raw)
        self.connection.execute(_GAPS)


def _stats_view(ranks: Sequence[RankReader], has_passes: bool) -> str:
    """Numbers that a recording does not have are null."""
    known = frozenset(Row._fields).intersection(*(rank.known_numbers for rank in ranks))
    ends = {
        name: _NUMBER.format(name) if name in known else f"NULL::DOUBLE AS {name}"
        for name in ("min", "max")
    }
    exact = {
        f"{name}_int": _EXACT.format(name) if name in known else f"NULL::HUGEINT AS {name}_int"
        for name in ("min", "max")
    }
    numbers = [f"r.{n}" if n in known else f"NULL::DOUBLE AS {n}" for n in Row._fields[3:]]
    pass_number = 'coalesce(p.pass, 0)::INTEGER AS "pass"' if has_passes else '0 AS "pass"'
    passes = _PASSES if has_passes else ""
    return _STATS.format(
        side=_SIDE,
        numbers=", ".join(numbers),
        pass_number=pass_number,
        passes=passes,
        **ends,
        **exact,
    )


def _count(ranks: Sequence[RankReader], parts: Parts, chosen: Chosen) -> float:
    """About how many rows are chosen, as if each node had as many in each step."""
    total = 0.0
    for rank in ranks:
        rows = float(sum(map(len, parts[rank.number])))
        if chosen.nodes is not None:
            rows *= len(chosen.nodes.get(rank.number, ())) / max(1, len(rank.nodes))
        if chosen.steps is not None:
            rows *= len(chosen.steps.get(rank.number, ())) / max(1, len(rank.recorded_steps))
        total += rows
    return total


def _chosen_rows(rank: RankReader, chosen: Chosen) -> Records:
    nodes = None if chosen.nodes is None else chosen.nodes.get(rank.number, set())
    steps = None if chosen.steps is None else chosen.steps.get(rank.number, set())
    return rank.stats(nodes, steps)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise OpscopeError("SQL needs DuckDB: pip install 'opscope[query]'") from None
    return duckdb

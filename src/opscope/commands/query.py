"""Ask a run in SQL, over the tables nodes, steps, stats and stacks.

For example: opscope query last "select name, max(max) from stats group by name order by 2 desc"
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from opscope.commands.output import add_json_flag
from opscope.commands.streaming import stream_csv, stream_json, stream_table
from opscope.errors import OpscopeError

_AT_A_TIME = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opscope query`."""
    parser.add_argument("run", metavar="RUN", help='a path, a name, the start of one, or "last"')
    parser.add_argument("sql", metavar="SQL", help='for example "select * from steps"')
    add_json_flag(parser)
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def run(args: argparse.Namespace) -> int:
    """Print the answer as it comes."""
    from opscope.read.reader import open_recording
    from opscope.read.tables import Tables

    if args.json and args.csv:
        raise OpscopeError("--json and --csv exclude each other")
    recording = open_recording(args.run)
    with Tables(recording, args.sql) as tables, tables.within_memory():
        columns, lines = _ask(tables.connection, args.sql)
        if args.json:
            stream_json(columns, lines)
        elif args.csv:
            stream_csv(columns, lines)
        else:
            stream_table(columns, lines)
    return 0


def _ask(connection: Any, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    import duckdb

    try:
        answer = connection.execute(sql)
        if answer is None or answer.description is None:
            raise OpscopeError("the SQL has no statement in it")
        return _distinct([column[0] for column in answer.description]), _lines(answer)
    except duckdb.Error as error:
        raise OpscopeError(str(error)) from None


def _lines(answer: Any) -> Iterator[tuple[Any, ...]]:
    """The lines of an answer, some at a time."""
    import duckdb

    try:
        while lines := answer.fetchmany(_AT_A_TIME):
            yield from lines
    except duckdb.Error as error:
        raise OpscopeError(str(error)) from None


def _distinct(names: list[str]) -> list[str]:
    """Column names that are all different, so that none is lost in JSON."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    counts = dict.fromkeys(names, 0)
    return [name if seen[name] == 1 else _numbered(name, counts) for name in names]


def _numbered(name: str, counts: dict[str, int]) -> str:
    counts[name] += 1
    return f"{name}_{counts[name]}"

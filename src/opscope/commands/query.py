"""Ask a run in SQL, over the tables nodes, steps, stats and stacks.

For example: opscope query last "select name, max(max) from stats group by name order by 2 desc"
"""

from __future__ import annotations

import argparse
from typing import Any

from opscope.commands.interrupt import interruptible
from opscope.commands.output import add_json_flag, print_csv, print_json, print_table
from opscope.errors import OpscopeError
from opscope.read.find import find_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opscope query`."""
    parser.add_argument("run", metavar="RUN", help='a path, a name, the start of one, or "last"')
    parser.add_argument("sql", metavar="SQL", help='for example "select * from steps"')
    add_json_flag(parser)
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def run(args: argparse.Namespace) -> int:
    """Print the answer."""
    from opscope.read.run import open_run
    from opscope.read.tables import connect

    if args.json and args.csv:
        raise OpscopeError("--json and --csv exclude each other")
    connection = connect(open_run(find_run(args.run)))
    columns, rows = interruptible(lambda: _ask(connection, args.sql), connection.interrupt)
    if args.json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif args.csv:
        print_csv(columns, rows)
    else:
        print_table(columns, rows)
    return 0


def _ask(connection: Any, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb

    try:
        answer = connection.execute(sql)
        if answer is None or answer.description is None:
            raise OpscopeError("the SQL has no statement in it")
        return _distinct([column[0] for column in answer.description]), answer.fetchall()
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

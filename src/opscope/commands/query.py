"""Ask a run in SQL, over the tables nodes, steps, stats, extra_stats, gaps and stacks.

For example: opscope query last "select name, max(max) from stats group by name order by 2 desc"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from opscope.commands.interrupt import interruptible
from opscope.commands.output import add_json_flag
from opscope.commands.streaming import stream_csv, stream_json, stream_table
from opscope.errors import OpscopeError

if TYPE_CHECKING:
    from opscope.read.tables import Tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope query`."""
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
    with Tables(open_recording(args.run), args.sql) as tables:
        interruptible(lambda: _answer(tables, args), tables.interrupt)
    return 0


def _answer(tables: Tables, args: argparse.Namespace) -> None:
    names, lines = tables.ask(args.sql)
    stream = stream_json if args.json else stream_csv if args.csv else stream_table
    stream(_distinct(names), lines)


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

"""List the runs and dumps in a directory."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.commands.output import add_json_flag, print_json, print_table, size
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.read.find import recordings_in
from opscope.rundir.layout import RUNS

if TYPE_CHECKING:
    from opscope.read.summary import Summary

_COLUMNS = ("name", "kind", "started", "state", "ranks", "steps", "nodes", "last loss", "size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opscope runs`."""
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(RUNS), help=f"default: ./{RUNS}"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per run, the newest last."""
    if not args.directory.is_dir() and str(args.directory) != RUNS:
        raise OpscopeError(f"{args.directory}: there is no such directory")
    found = recordings_in(args.directory)
    summaries = [summary for path in found if (summary := _summary(path))]
    if args.json:
        print_json([summary._asdict() for summary in summaries])
    elif summaries:
        print_table(_COLUMNS, [_line(summary) for summary in summaries])
    else:
        say(f"there is no run in {args.directory}")
    return 0


def _summary(path: Path) -> Summary | None:
    from opscope.read.reader import open_recording
    from opscope.read.summary import summarize

    try:
        return summarize(open_recording(path))
    except OpscopeError as error:
        say(str(error))
        return None


def _line(summary: Summary) -> list[Any]:
    values: dict[str, Any] = summary._asdict()
    values |= {"started": _local(summary.started), "size": size(summary.size)}
    return list(values.values())[: len(_COLUMNS)]


def _local(started: str) -> str:
    """A time as clocks here show it; what is no time, as it stands in the file."""
    try:
        return f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return started[:40] or "-"

"""List the runs and dumps in a directory."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.commands.output import add_json_flag, print_json
from opscope.commands.tables import print_table
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.read.find import none_in, recordings_in
from opscope.rundir.layout import RUNS
from opscope.wording import size

if TYPE_CHECKING:
    from opscope.read.summary import Summary

_COLUMNS = ("name", "state", "steps", "hits", "loss", "age", "size", "nodes", "ranks", "kind")
_SPARE = ("kind", "ranks", "nodes", "size", "loss", "age", "hits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope runs`."""
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(RUNS), help=f"default: ./{RUNS}"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per run, the newest last."""
    if not args.directory.is_dir() and str(args.directory) != RUNS:
        what = "is not a directory" if args.directory.exists() else "there is no such directory"
        raise OpscopeError(f"{args.directory}: {what}")
    found = recordings_in(args.directory)
    summaries = [summary for path in found if (summary := _summary(path))]
    if args.json:
        print_json([summary._asdict() for summary in summaries])
    elif summaries:
        lines = [_line(summary) for summary in summaries]
        print_table(_COLUMNS, lines, whole=("name", "state"), spare=_SPARE)
    else:
        say(none_in(args.directory))
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
    values |= {"age": _age(summary.started), "size": size(summary.size)}
    return [values[name] for name in _COLUMNS]


def _age(started: str) -> str:
    """Say how long ago that was; what is no time, as it stands in the file."""
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(started).astimezone(UTC)
    except (ValueError, OverflowError):
        return started[:40] or "-"
    seconds = max(0, int(age.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"

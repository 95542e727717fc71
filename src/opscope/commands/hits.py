"""List the hits of a run: what its watchpoints found while it ran.

Hits of one watchpoint at one value are one line, with the steps and what it was the first time;
`--all` lists each by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.calls import moment
from opscope.commands.output import (
    add_json_flag,
    print_hit_groups,
    print_hits,
    print_json,
    print_line,
)
from opscope.commands.parsing import count
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.read.hit_rows import grouped
from opscope.settings.checks import did_you_mean
from opscope.wording import counted

if TYPE_CHECKING:
    from opscope.read.reader import Reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope hits`."""
    parser.add_argument("run", metavar="RUN", help='a path, a name, the start of one, or "last"')
    parser.add_argument("--rank", type=int, help="only this rank")
    parser.add_argument("--step", type=count, help="only this step")
    parser.add_argument("--condition", metavar="C", help="only this condition, such as TO")
    parser.add_argument(
        "--first",
        type=count,
        default=100,
        metavar="N",
        help="the first N lines (default 100; 0 = all)",
    )
    parser.add_argument("--all", action="store_true", help="each hit by itself")
    parser.add_argument("--html", metavar="FILE", help="write the verdict as an HTML file as well")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the hits in the order of steps, ranks and execution."""
    from opscope.read.reader import open_reader

    reader = open_reader(args.run)
    if args.html:
        _write_html(reader, Path(args.html))
    abbr = _abbr(args.condition)
    ranks = None if args.rank is None else [args.rank]
    found = [dict(hit.data) for hit in reader.hits(ranks)]
    chosen = [hit for hit in found if _is_wanted(hit, args.step, abbr)]
    chosen.sort(key=lambda hit: (hit.get("step", 0), hit.get("rank", 0), hit.get("call", 0)))
    if args.json:
        print_json(chosen)
    elif chosen:
        _print(chosen, args)
    elif found:
        say("no hits of that kind")
    else:
        say(reader.recording.lacks.get("hits") or f"no hits in {reader.path}")
    if not args.json and not abbr:
        _print_notes(reader, ranks, args.step, args.first)
    return 0


def _print(chosen: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> None:
    if args.all:
        print_hits(chosen, args.first)
    else:
        print_hit_groups(grouped(chosen), args.first)


def _write_html(reader: Reader, path: Path) -> None:
    from opscope.views.html_report import html_report

    try:
        path.write_text(html_report(reader), encoding="utf-8")
    except OSError as error:
        raise OpscopeError(f"{path}: {error.strerror or error}") from None


def _print_notes(reader: Reader, ranks: list[int] | None, step: int | None, first: int) -> None:
    """Print what did no harm: batches that the script skipped, values that were masked."""
    from opscope.judge.origin.verdict import shown_place

    chosen = [note for note in reader.notes(ranks) if step in (None, note["step"])]
    if not chosen:
        return
    noted = counted(len(chosen), "noted, which is no hit", "noted, which are no hits")
    say(f"{noted} (notes.jsonl):")
    for note in chosen[: first or None]:
        place = f" ({shown_place(str(note['where']))})" if note["where"] else ""
        print_line(f"  {moment(note['step'], note.get('pass'))}: {note['message']}{place}")


def _abbr(condition: str | None) -> str:
    if condition is None:
        return ""
    from opscope.judge.catalogue import BY_NAME

    found = BY_NAME.get(condition) or BY_NAME.get(condition.upper())
    if found is None:
        raise OpscopeError(f"{condition} is no condition{did_you_mean(condition, BY_NAME)}")
    return found.abbr


def _is_wanted(hit: Mapping[str, Any], step: int | None, abbr: str) -> bool:
    return (step is None or hit.get("step") == step) and abbr in ("", hit.get("condition"))

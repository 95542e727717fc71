"""Check watchpoints on a run or a dump that was recorded.

Hits of one watchpoint at one value are one line, with the steps and what it was the first time;
`--all` lists each by itself. Statistics are enough for most conditions; ranges and changes need
saved tensors, which a dump has. What could not be checked is listed at the end, with the reason.

The exit code is 0 if nothing was hit, 3 if something was, 2 for a mistake in the arguments.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from opscope.commands.output import (
    add_json_flag,
    print_hit_groups,
    print_hits,
    print_json,
    print_line,
    print_wrapped,
)
from opscope.commands.parsing import count
from opscope.errors import HIT, ConfigError, OpscopeError, Problem
from opscope.read.hit_rows import grouped
from opscope.waiting import show
from opscope.wording import counted

if TYPE_CHECKING:
    from opscope.analysis.check import Checked


_SHOWN = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope check`."""
    parser.add_argument(
        "path", metavar="RUN_OR_DUMP", help='a directory; for a run also its name, or "last"'
    )
    parser.add_argument(
        "--watch",
        metavar="WHAT",
        default="recommended",
        help='a file, or a specification such as "TO; TL max_gt=10" (default: recommended)',
    )
    parser.add_argument("--steps", metavar="RANGES", help='only these steps, such as "0|5-8"')
    parser.add_argument("--rank", type=int, action="append", help="only this rank; may be repeated")
    parser.add_argument("--include", metavar="PHASES", help="also check setup, data or eval")
    parser.add_argument(
        "--first",
        type=count,
        default=_SHOWN,
        metavar="N",
        help=f"the first N lines (default {_SHOWN}; 0 = all)",
    )
    parser.add_argument("--all", action="store_true", help="each hit by itself")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print hits and what could not be checked."""
    from opscope.analysis.opened import open_for_checks
    from opscope.judge.watch_set import load

    watch = load(args.watch)
    if not watch.enabled:
        raise OpscopeError("there is nothing to check: --watch names no watchpoint that is on")
    include = _phases(args.include)
    reader = open_for_checks(args.path)
    checked = reader.check(watch, ranks=args.rank, steps=args.steps, include=include, progress=show)
    if args.json:
        print_json(checked.to_json())
    else:
        _print(checked, args.first, args.all)
    return HIT if checked.hits else 0


def _phases(text: str | None) -> list[str]:
    from opscope.analysis.check import INCLUDED

    phases = [part.strip() for part in (text or "").split(",") if part.strip()]
    wrong = [phase for phase in phases if phase not in INCLUDED]
    if wrong:
        message = f"must be some of {', '.join(INCLUDED)}, with commas between them"
        raise ConfigError([Problem("--include", "", wrong[0], message)])
    return phases


def _print(checked: Checked, first: int, each: bool) -> None:
    found = [hit.to_json() for hit in checked.hits]
    if found and each:
        print_hits(found, first)
    elif found:
        print_hit_groups(grouped(found), first, *_of_checks(checked))
    else:
        print_line(_nothing_hit(checked))
    if checked.unchecked:
        print_line()
        print_line("not checked:")
    for missed in checked.unchecked:
        count = f"{counted(missed.count, 'value')}: " if missed.count else ""
        example = f" ({missed.example})" if missed.example else ""
        print_wrapped(f"{missed.watchpoint.label}: {count}{missed.reason}{example}")
    for note in checked.notes:
        print_wrapped(f"note: {note}")


def _nothing_hit(checked: Checked) -> str:
    checks, left = _of_checks(checked)
    return f"no hits{checks}{left}" if checked.values else f"nothing was checked{left}"


def _of_checks(checked: Checked) -> tuple[str, str]:
    """Say how many checks there were, and how many values were left out."""
    unchecked = checked.unchecked_values
    left = f"; {counted(unchecked, 'value')} could not be checked" if unchecked else ""
    return f" in {counted(checked.values, 'check')}", left

"""Printing for commands: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opscope.commands.tables import table_lines, terminal_width, wrapped
from opscope.escapes import escaped, escaped_json
from opscope.read.hit_rows import (
    GROUP_COLUMNS,
    HIT_COLUMNS,
    HitsAtValue,
    advice_of,
    hit_row,
    label_of,
)
from opscope.rundir.jsonlines import dumps
from opscope.wording import counted, folded


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--json` that every verb has."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN, infinities and integers beyond 2**53 are strings."""
    print(escaped_json(dumps(value, indent=2)))


def print_line(text: str = "") -> None:
    """Print one line; whatever comes from files is shown escaped."""
    print(escaped(text))


def print_folded(text: str, indent: int = 4) -> None:
    """Print one line, or several on a terminal that is too narrow, the later ones indented."""
    width = terminal_width(sys.stdout)
    line = escaped(text)
    print("\n".join(folded(line, width, indent) if width else [line]))


def print_wrapped(text: str, indent: int = 2) -> None:
    """Print a sentence in as many lines as the terminal needs for it."""
    for line in wrapped(escaped(text), indent):
        print(line)


def _print_advice(hits: Iterable[Mapping[str, Any]]) -> None:
    for line in advice_of(hits):
        print_wrapped(line)


def print_hit_groups(
    groups: Sequence[HitsAtValue], first: int, checks: str = "", left: str = ""
) -> None:
    """Print a summary, then a line per group; only the first ones if there are many.

    `checks` says among how many checks they were found and `left` what was left out, where that
    is known.
    """
    counts: dict[str, int] = {}
    for group in groups:
        label = label_of(group.first)
        counts[label] = counts.get(label, 0) + len(group.steps)
    total = sum(counts.values())
    kinds = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    print_wrapped(f"{counted(total, 'hit')}{checks}: {kinds}{left}", indent=0)
    shown = groups[:first] if first else groups
    spare = ("rank", *(("watchpoint",) if len(counts) == 1 else ()), "hits")
    _print_told(GROUP_COLUMNS, [group.row() for group in shown], spare)
    _print_advice(group.first for group in shown)
    if len(shown) < len(groups):
        more = counted(len(groups) - len(shown), "more kind of hit is", "more kinds of hits are")
        print(f"\n{more} not shown; --first 0 shows all")


def print_hits(hits: Sequence[Mapping[str, Any]], first: int) -> None:
    """Print hits as a table; only the first ones if there are many."""
    shown = hits[:first] if first else hits
    _print_told(HIT_COLUMNS, [hit_row(hit) for hit in shown], ("rank",))
    _print_advice(shown)
    if len(shown) < len(hits):
        more = counted(len(hits) - len(shown), "later hit is", "later hits are")
        print(f"\n{more} not shown; --first 0 shows all")


def _print_told(columns: Sequence[str], rows: list[list[Any]], spare: Sequence[str]) -> None:
    """Print a table that ends in a sentence, which stands below its row if it would be cut."""
    width = terminal_width(sys.stdout)
    whole = table_lines(columns, rows, width, spare=spare)
    short = table_lines(columns[:-1], [row[:-1] for row in rows], width, spare=spare)
    if not _is_cut(whole, rows) or len(short) != len(rows) + 1:
        print("\n".join(whole))
        return
    print(short[0])
    for line, row in zip(short[1:], rows, strict=True):
        print(line)
        print_wrapped(row[-1], indent=4)


def _is_cut(lines: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Tell whether sentences at the end of a table are shortened."""
    if len(lines) != len(rows) + 1:
        return False
    ends = (escaped(str(row[-1])).rstrip() for row in rows)
    return not all(line.endswith(end) for line, end in zip(lines[1:], ends, strict=True))

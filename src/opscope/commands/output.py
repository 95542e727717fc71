"""How commands print: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from opscope.commands.tables import is_terminal, print_table
from opscope.escapes import escaped, escaped_json
from opscope.rundir.jsonlines import dumps


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """The `--json` that every verb has."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN, infinities and integers beyond 2**53 are strings."""
    print(escaped_json(dumps(value, indent=2)))


def print_line(text: str = "") -> None:
    """Print one line; whatever comes from files is shown escaped."""
    print(escaped(text))


_HIT_COLUMNS = ("step", "rank", "watchpoint", "value", "line", "what")
_GROUP_COLUMNS = ("steps", "hits", *_HIT_COLUMNS[1:])
_SAME = ("label", "condition", "rank", "name", "io", "slot", "parameter")
"""What hits of a group have in common."""


def hit_row(hit: Mapping[str, Any]) -> list[Any]:
    """A hit, as it stands in a file, as a line of a table."""
    side = "input:" if hit.get("io") == "input" else ""
    of_pass = "" if hit.get("pass") is None else f"@{hit['pass']}"
    value = f"{hit['name']}:{side}{hit.get('slot', 0)}{of_pass}" if hit.get("name") else ""
    parameter = hit.get("parameter") or ""
    if parameter and hit.get("name") != parameter:
        value = f"{parameter} ({value})" if value else parameter
    return [
        hit.get("step"),
        hit.get("rank"),
        hit.get("label") or hit.get("condition"),
        value or "-",
        near(str(hit.get("where") or "-")),
        hit.get("message", ""),
    ]


class HitGroup:
    """Hits of one watchpoint at one value of one rank."""

    def __init__(self, hit: Mapping[str, Any]) -> None:
        self.first = hit
        self.steps: list[int] = []

    def row(self) -> list[Any]:
        """A line of a table: when, how often, and what it was the first time."""
        low, high = min(self.steps), max(self.steps)
        steps = str(low) if low == high else f"{low}-{high}"
        return [steps, len(self.steps), *hit_row(self.first)[1:]]


def grouped(hits: Iterable[Mapping[str, Any]]) -> list[HitGroup]:
    """Hits that say the same of the same value together, in the order of their first ones."""
    groups: dict[tuple[Any, ...], HitGroup] = {}
    for hit in hits:
        key = tuple(hit.get(name) for name in _SAME)
        groups.setdefault(key, HitGroup(hit)).steps.append(int(hit.get("step") or 0))
    return list(groups.values())


def print_hit_groups(groups: Sequence[HitGroup], first: int) -> None:
    """Print a summary, then a line per group; only the first ones if there are many."""
    counts: dict[str, int] = {}
    for group in groups:
        label = str(group.first.get("label") or group.first.get("condition"))
        counts[label] = counts.get(label, 0) + len(group.steps)
    total = sum(counts.values())
    kinds = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    print_line(f"{total:,} hit{'' if total == 1 else 's'}: {kinds}")
    shown = groups[:first] if first else groups
    print_table(_GROUP_COLUMNS, [group.row() for group in shown], spare=("rank", "hits"))
    if len(shown) < len(groups):
        more = len(groups) - len(shown)
        print(f"\n{more:,} more kinds of hits are not shown; --first 0 shows all")


def print_hits(rows: Sequence[Sequence[Any]], first: int) -> None:
    """Print hits as a table; only the first ones if there are many."""
    shown = rows[:first] if first else rows
    print_table(_HIT_COLUMNS, shown, spare=("rank",))
    if len(shown) < len(rows):
        print(f"\n{len(rows) - len(shown):,} later hits are not shown; --first 0 shows all")


def near(place: str) -> str:
    """A place in the code as seen from here, if it is below."""
    here = f"{Path.cwd()}/"
    return place.removeprefix(here)


class Bar:
    """A bar on stderr while something takes long; nothing where nobody looks."""

    def __init__(self, what: str, after: float = 0.5) -> None:
        self._what = what
        self._is_on = is_terminal(sys.stderr)
        self._next = time.monotonic() + after
        self._is_shown = False

    def __enter__(self) -> Bar:
        return self

    def show(self, done: int, total: int) -> None:
        """So much is done, of so much."""
        now = time.monotonic()
        if not self._is_on or now < self._next:
            return
        self._next, self._is_shown = now + 0.1, True
        full = round(30 * done / max(total, 1))
        bar = "#" * full + "." * (30 - full)
        sys.stderr.write(f"\r{self._what} [{bar}] {100 * done // max(total, 1)} %")
        sys.stderr.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

"""How commands print: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from opscope.escapes import escaped, escaped_json
from opscope.rundir.jsonlines import dumps

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """The `--json` that every verb has."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN, infinities and integers beyond 2**53 are strings."""
    print(escaped_json(dumps(value, indent=2)))


def print_line(text: str = "") -> None:
    """Print one line; whatever comes from files is shown escaped."""
    print(escaped(text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table: with rich on a terminal that has it, else as aligned text."""
    columns = [escaped(column) for column in columns]
    texts = [[escaped(cell(value)) for value in row] for row in rows]
    right = [_is_numeric(column) for column in zip(*rows, strict=True)] or [False] * len(columns)
    if not (_is_terminal(sys.stdout) and _print_rich(columns, texts, right)):
        _print_plain(columns, texts, right)


def cell(value: Any) -> str:
    """A value for people: six digits of a float, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return str(value)


def number(value: float) -> str:
    """A number for people; integers are exact.

    >>> number(0.1 + 0.2), number(2**60), number(-math.inf)
    ('0.3', '1152921504606846976', '-Inf')
    """
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return f"{value:.6g}"
    return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")


def size(count: int) -> str:
    """A number of bytes for people."""
    power = min(max(count, 1).bit_length() - 1, 49) // 10
    amount = count / (1 << 10 * power)
    return f"{amount:.0f} {_UNITS[power]}" if amount >= 100 else f"{amount:.3g} {_UNITS[power]}"


_HIT_COLUMNS = ("step", "rank", "watchpoint", "value", "line", "what")


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
        _near(str(hit.get("where") or "-")),
        hit.get("message", ""),
    ]


def print_hits(rows: Sequence[Sequence[Any]], first: int) -> None:
    """Print hits as a table; only the first ones if there are many."""
    shown = rows[:first] if first else rows
    print_table(_HIT_COLUMNS, shown)
    if len(shown) < len(rows):
        print(f"\n{len(rows) - len(shown):,} later hits are not shown; --first 0 shows all")


def _near(place: str) -> str:
    """A place in the code as seen from here, if it is below."""
    here = f"{Path.cwd()}/"
    return place.removeprefix(here)


class Bar:
    """A bar on stderr while something takes long; nothing where nobody looks."""

    def __init__(self, what: str, after: float = 0.5) -> None:
        self._what = what
        self._is_on = _is_terminal(sys.stderr)
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


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks; Python has no stream at all where a descriptor was closed."""
    return stream is not None and stream.isatty()


def _is_numeric(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in column)


def _print_plain(columns: Sequence[str], rows: list[list[str]], right: list[bool]) -> None:
    lines = [list(columns), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        text = "  ".join(t.rjust(width) if r else t.ljust(width) for t, width, r in cells)
        print(text.rstrip())


def _print_rich(columns: Sequence[str], rows: list[list[str]], right: list[bool]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(name, justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True

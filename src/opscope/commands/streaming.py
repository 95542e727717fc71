"""Printing of many lines as they come, so that an answer of any size needs little memory."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from opscope.commands.numbers import cell
from opscope.commands.tables import (
    column_widths,
    print_table,
    table_line,
    table_lines,
    terminal_width,
)
from opscope.escapes import escaped, escaped_json
from opscope.rundir.jsonlines import dumps
from opscope.wording import counted

_MEASURED = 1000
"""So many lines decide how wide the columns of a table are."""
_SHOWN = 200
"""So many lines a terminal gets."""

TableRow = tuple[Any, ...]
Lines = Iterator[TableRow]


def stream_json(columns: Sequence[str], lines: Lines) -> None:
    """Print a list of objects."""
    first = next(lines, None)
    if first is None:
        print("[]")
        return
    print("[\n" + _object(columns, first), end="")
    for line in lines:
        print(",\n" + _object(columns, line), end="")
    print("\n]")


def stream_csv(columns: Sequence[str], lines: Lines) -> None:
    """Print comma-separated values with full precision."""
    if sys.stdout is None:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(escaped, columns))
    writer.writerows(map(_escaped_text, line) for line in lines)


def _escaped_text(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else value


def stream_table(columns: Sequence[str], lines: Lines) -> None:
    """Print a table; the first lines of a long one decide how wide its columns are.

    A person gets the first lines and how many there are; a file or a program gets all of them.
    """
    first = list(islice(lines, _MEASURED))
    width = terminal_width(sys.stdout)
    if width is not None and len(shown := _first_rows(columns, first, width)) < len(first):
        more = len(first) - len(shown) + sum(1 for _ in lines)
        print_table(columns, shown)
        print(f"and {counted(more, 'more row')}; --csv and --json print all")
        return
    print("\n".join(table_lines(columns, first, width)))
    if len(first) < _MEASURED:
        return
    widths, right = column_widths(columns, first)
    for line in lines:
        print(table_line([escaped(cell(value)) for value in line], widths, right))


def _first_rows(columns: Sequence[str], rows: list[TableRow], width: int) -> list[TableRow]:
    """The rows that a terminal gets: fewer where each is a list of its own."""
    shown = rows[:_SHOWN]
    lines = len(table_lines(columns, shown, width))
    return shown if lines <= _SHOWN + 1 else rows[: max(1, _SHOWN // (len(columns) + 1))]


def _object(columns: Sequence[str], line: Sequence[Any]) -> str:
    text = escaped_json(dumps(dict(zip(columns, line, strict=True)), indent=2))
    return "\n".join(f"  {part}" for part in text.split("\n"))

"""Printing of many lines as they come, so that an answer of any size needs little memory."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from opscope.commands.output import cell, print_table
from opscope.escapes import escaped, escaped_json
from opscope.rundir.jsonlines import dumps

_MEASURED = 1000
"""So many lines decide how wide the columns of a table are."""

Lines = Iterator[tuple[Any, ...]]


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
    """Print a table; of a long one the first lines decide how wide its columns are."""
    first = list(islice(lines, _MEASURED))
    if len(first) < _MEASURED:
        print_table(columns, first)
        return
    columns = [escaped(column) for column in columns]
    texts = [[escaped(cell(value)) for value in line] for line in first]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    numeric = [_is_number(line) for line in zip(*first, strict=True)]
    for text in (list(columns), *texts):
        _print_line(text, widths, numeric)
    for line in lines:
        _print_line([escaped(cell(value)) for value in line], widths, numeric)


def _object(columns: Sequence[str], line: Sequence[Any]) -> str:
    text = escaped_json(dumps(dict(zip(columns, line, strict=True)), indent=2))
    return "\n".join(f"  {part}" for part in text.split("\n"))


def _is_number(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in column)


def _print_line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> None:
    cells = zip(texts, widths, right, strict=True)
    print("  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in cells).rstrip())

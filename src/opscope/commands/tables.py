"""Tables that fit the terminal: names are cut in their middle, numbers never."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile
from typing import Any, TextIO

from opscope.commands.numbers import cell
from opscope.escapes import escaped
from opscope.wording import columns_of

_GAP = "  "
_LEAST = 12
"""A text is not cut to less than this."""
_NUMBER = re.compile(r"(?<!\S)(?:\w+=)?[^\sA-Za-z_/]*\d(?:e[-+]?\d|[^\sA-Za-z_/])*(?!\S)")
"""A word of a sentence that is a number, with its punctuation."""


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print a table; on a terminal that is too narrow it is made to fit.

    First `spare` columns are left out, those that say nothing before others, then texts are cut,
    but for `whole` columns; where that is not enough, every row is a list of its own. What is not
    a terminal gets every character.
    """
    for line in table_lines(columns, rows, terminal_width(sys.stdout), whole, spare):
        print(line)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None,
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
) -> list[str]:
    """The lines of a table of at most this width, if there is a limit."""
    if width is not None:
        columns, rows = _without_spare(columns, rows, width, spare)
    texts = [[escaped(cell(value)) for value in row] for row in rows]
    head = [escaped(column) for column in columns]
    widths, right = column_widths(columns, rows)
    if width is not None and _total(widths) > width:
        may_cut = [not r and name not in whole for r, name in zip(right, columns, strict=True)]
        fitted = _fitted(widths, may_cut, width)
        if fitted is None:
            kept = {escaped(n) for n, r in zip(columns, right, strict=True) if r or n in whole}
            return _upright(head, texts, width, kept)
        widths = fitted
        texts = [[shortened(t, w) for t, w in zip(line, widths, strict=True)] for line in texts]
    return [table_line(line, widths, right) for line in (head, *texts)]


def shortened(text: str, width: int) -> str:
    """A text cut in its middle to fit; of a name more of the end stays, which tells it apart.

    >>> shortened("Default/network-Net/conv1-Conv2d/convolution-op0", 26)
    'Default/…d/convolution-op0'
    >>> shortened("a tensor holds NaN or Inf: 16 of 64", 26)
    'a tensor hol…Inf: 16 of 64'

    A number in a sentence stays whole or goes.

    >>> shortened("mean |x| is 5.62952, above 1", 22)
    'mean |x| i… above 1'
    """
    if columns_of(text) <= width:
        return text
    room = max(1, (width - 1) // (3 if "/" in text and " " not in text else 2))
    front = _that_fit(text, room)
    rest = len(text) - _that_fit(text[::-1], width - 1 - columns_of(text[:front]))
    for number in _NUMBER.finditer(text) if " " in text else ():
        front = number.start() if number.start() < front < number.end() else front
        rest = number.end() if number.start() < rest < number.end() else rest
    return f"{text[:front]}…{text[rest:]}"


def _that_fit(text: str, width: int) -> int:
    """Count the first characters of a text that fit."""
    if text.isascii():
        return max(0, min(width, len(text)))
    taken = accumulate(map(columns_of, text))
    return sum(1 for _ in takewhile(lambda columns: columns <= width, taken))


def column_widths(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[int], list[bool]]:
    """Measure how wide columns are, and which are of numbers."""
    right = [_is_numeric(column) for column in zip(*rows, strict=True)] or [False] * len(columns)
    widths = [columns_of(escaped(column)) for column in columns]
    for row in rows:
        widths = [max(w, columns_of(escaped(cell(v)))) for w, v in zip(widths, row, strict=True)]
    return widths, right


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person looks; Python has no stream at all where a descriptor was closed."""
    return stream is not None and stream.isatty()


def terminal_width(stream: TextIO | None) -> int | None:
    """Measure how much fits in a line; None where nobody looks."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def _without_spare(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int, spare: Sequence[str]
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The columns that fit, and the rows with these only."""
    silent = {
        name
        for name, values in zip(columns, zip(*rows, strict=True), strict=False)
        if not any(values)
    }
    for name in sorted(spare, key=lambda name: name not in silent):
        if _total(column_widths(columns, rows)[0]) <= width:
            break
        place = list(columns).index(name)
        columns = [*columns[:place], *columns[place + 1 :]]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
    return columns, rows


def fitted(text: str, taken: int = 0, least: int = 30) -> str:
    """A line as it fits the terminal beside what is `taken`; all of it where nobody looks."""
    width = terminal_width(sys.stdout)
    return text if width is None else shortened(text, max(least, width - taken))


def wrapped(text: str, indent: int = 0) -> list[str]:
    """A sentence in lines that fit the terminal; one line where nobody looks."""
    margin = " " * indent
    width = terminal_width(sys.stdout)
    if width is None:
        return [margin + text]
    return textwrap.wrap(
        text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitted(widths: Sequence[int], may_cut: Sequence[bool], width: int) -> list[int] | None:
    """Narrower columns, the widest cut first; None if they cannot be narrow enough."""
    found = list(widths)
    while (surplus := _total(found) - width) > 0:
        cuttable = [i for i, may in enumerate(may_cut) if may and found[i] > _LEAST]
        if not cuttable:
            return None
        widest = max(cuttable, key=lambda i: found[i])
        others = [found[i] for i in cuttable if found[i] < found[widest]]
        floor = max([_LEAST, *others])
        alike = sum(found[i] == found[widest] for i in cuttable)
        found[widest] -= max(1, min(found[widest] - floor, -(-surplus // alike)))
    return found


def _upright(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, whole: Collection[str]
) -> list[str]:
    """Each row as lines of a name and a value; sentences are wrapped, other texts are cut."""
    margin = max(map(columns_of, head), default=0)
    lines: list[str] = []
    for row in rows:
        if lines:
            lines.append("")
        for name, value in zip(head, row, strict=True):
            room = columns_of(value) if name in whole else max(_LEAST, width - margin - len(_GAP))
            first, *more = _in_lines(value, room)
            lines.append(f"{_padded(name, margin)}{_GAP}{first}".rstrip())
            lines += [f"{' ' * margin}{_GAP}{line}" for line in more]
    return lines or [shortened(_GAP.join(head), width)]


def _in_lines(text: str, width: int) -> list[str]:
    """A text in lines of this width: a sentence is wrapped, and what has no spaces is cut."""
    if columns_of(text) <= width:
        return [text]
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [shortened(line, width) for line in lines]


def table_line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """One line; `right` says which columns are of numbers."""
    cells = zip(texts, widths, right, strict=True)
    return _GAP.join(_padded(text, width, r) for text, width, r in cells).rstrip()


def _padded(text: str, width: int, right: bool = False) -> str:
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks


def _is_numeric(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in column)

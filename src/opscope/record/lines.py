"""The lines of the user's code that an operator comes from, as a ring has them.

One line `file <tab> line <tab> function` for each frame, the innermost first. Native code writes
them for call sites; where it cannot read frames, those that the capture found for a node stand in.
"""

from __future__ import annotations

import linecache
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from opscope.events import Stack
from opscope.regular import LIMIT

_LONGEST = 12
_SAME = "="
_DIGITS = 10


class SourceLine(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str


def lines_text(stack: Stack) -> str:
    """The user's frames of a stack."""
    frames = [frame for frame in stack.frames if frame.user][:_LONGEST]
    return "\n".join(f"{_plain(f.file)}\t{f.line}\t{_plain(f.function)}" for f in frames)


def _plain(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


def same_lines(node: int) -> str:
    """Says that a node has the lines of another."""
    return f"{_SAME}{node}"


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS


def lines_of(text: str, other: Callable[[int], str] = lambda node: "") -> Iterator[SourceLine]:
    """The lines that a text tells of; `other` gives the text of another node."""
    if text.startswith(_SAME) and _is_number(text[1:]):
        text = other(int(text[1:]))
    for line in text.splitlines():
        file, _, rest = line.partition("\t")
        number, _, function = rest.partition("\t")
        if _is_number(number.removeprefix("-")):
            yield SourceLine(file, int(number), function)


def code_at(file: str, line: int) -> str:
    """The text of a line; a recording from elsewhere may name what is no file to be read."""
    if file not in linecache.cache and not _is_readable(file):
        return ""
    return linecache.getline(file, line).rstrip()


def _is_readable(file: str) -> bool:
    try:
        about = os.stat(file)  # noqa: PTH116 - it may be no path at all
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(about.st_mode) and about.st_size <= LIMIT

"""Counts, sizes and times in a sentence: never with an exponent, always with the right plural."""

from __future__ import annotations

import shlex
import unicodedata

_LABEL = 10
"""A word of this length stays before a name that does not fit."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(number: int, word: str, words: str = "") -> str:
    """A number with its word, which is `words` if there are several.

    >>> counted(1, "hit"), counted(2500, "hit"), counted(1, "row is", "rows are")
    ('1 hit', '2,500 hits', '1 row is')
    """
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def typed(*words: object) -> str:
    """A command of opscope as a person types it: a shell reads these words in it.

    >>> typed("show", "my runs/one", "conv3")
    "opscope show 'my runs/one' conv3"
    """
    return shlex.join(["opscope", *map(str, words)])


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal: a Chinese character has two, an accent none.

    >>> columns_of("conv3"), columns_of("编码器"), columns_of("e\u0301")
    (5, 6, 1)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def folded(line: str, width: int, indent: int) -> list[str]:
    """A line in several that fit, the later ones indented; names and paths stay whole.

    >>> folded("advice  clamp the inputs", 16, 8)
    ['advice  clamp', '        the', '        inputs']
    >>> folded("name    a-long-name-of-something here", 16, 8)
    ['name    a-long-name-of-something', '        here']
    """
    if len(line) <= width:
        return [line]
    margin = " " * indent
    import textwrap  # late: most processes have no sentence to fold

    lines = textwrap.wrap(
        line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
    if len(lines) > 1 and len(lines[0]) <= max(indent, _LABEL):
        lines[:2] = [f"{lines[0].ljust(indent - 1)} {lines[1].lstrip()}"]
    return lines


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(1), size(2 << 30), size(2048 * 1000), size(1023)
    ('1 B', '2 GiB', '1.95 MiB', '1023 B')
    """
    power = min(max(count, 1).bit_length() - 1, 49) // 10
    return f"{three_digits(count / (1 << 10 * power))} {_UNITS[power]}"


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.00134), duration(0.9996), duration(754.0), duration(1234.5)
    ('1.34 ms', '1000 ms', '754 s', '1234 s')
    """
    if seconds < 1:
        return f"{three_digits(seconds * 1e3)} ms"
    return f"{three_digits(seconds)} s"


def three_digits(amount: float) -> str:
    """An amount with three digits, or as many as it has before the point.

    >>> three_digits(1.005), three_digits(99.96), three_digits(999.7), three_digits(2048)
    ('1', '100', '1000', '2048')
    """
    return f"{amount:.0f}" if amount >= 99.5 else f"{amount:.3g}"

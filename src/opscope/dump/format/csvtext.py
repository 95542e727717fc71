"""Fields and lines of CSV files, as RFC 4180 has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPECIAL = re.compile('[",\r\n]')


def field(text: str) -> str:
    """The text as one field, quoted if it has to be."""
    if _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def shape(sizes: Iterable[int]) -> str:
    """A shape as one field."""
    return field(f"[{','.join(map(str, sizes))}]")


def number(value: object) -> str:
    """A number that reads back as the same number; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return float.__repr__(value)
    return str(int(value))  # type: ignore[call-overload]


def encode(lines: Iterable[str], end: str) -> bytes:
    """Lines as the bytes of a file."""
    return "".join(f"{line}{end}" for line in lines).encode("utf-8", "backslashreplace")

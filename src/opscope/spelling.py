"""Spells what a stream cannot encode, such as an arrow in a terminal that knows ASCII only."""

from __future__ import annotations

import codecs
from io import TextIOWrapper

_SPELLED = {
    "…": "~",
    "→": "->",
    "·": "*",
    "±": "+-",
    "²": "^2",
    **dict.fromkeys("█▇▆▅", "#"),
    **dict.fromkeys("▄▃▂▁", "."),
}
_NAME = "opscope.spelled"


def spelled(text: str, encoding: str | None) -> str:
    """A text as it can be written in an encoding.

    >>> spelled("log of 0 → -Inf", "ascii"), spelled("log of 0 → -Inf", "utf-8")
    ('log of 0 -> -Inf', 'log of 0 → -Inf')
    """
    try:
        return text.encode(encoding or "utf-8", _NAME).decode(encoding or "utf-8")
    except (LookupError, UnicodeError):
        return text


def spell_on(stream: object) -> None:
    """Have a stream spell what it cannot encode, instead of raising."""
    if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors=_NAME)


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded: by its spelling here, or by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(_SPELLED.get(each) or _number(each) for each in bad), error.end


def _number(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(_NAME, _spell)

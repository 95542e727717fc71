"""Text from files on a terminal: what would move the cursor or begin a line is shown as it is."""

from __future__ import annotations

import re

_RAW = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line and paragraph separators, changes of direction, halves of characters."""


def escaped(text: str) -> str:
    r"""The text in one line, with nothing in it that a terminal would obey.

    >>> escaped("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return _RAW.sub(_escape, text)


def escaped_json(text: str) -> str:
    """JSON text of the same meaning; its line ends stay."""
    return _RAW.sub(lambda match: match[0] if match[0] == "\n" else _in_json(match), text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"

"""A sign on the terminal until a verb has its first word to say."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from opscope.commands.tables import is_terminal
from opscope.waiting import Waiting

SOON = 0.1
"""Seconds until the sign: Python has taken its own to get here."""


@contextlib.contextmanager
def waiting_for_words(what: str) -> Iterator[None]:
    """Say that something is under way until the first word of the answer."""
    stream = sys.stdout
    if not is_terminal(sys.stderr):
        yield
        return
    with Waiting(what, SOON) as waiting:
        sys.stdout = cast("TextIO", _FirstWord(stream, waiting.end))
        try:
            yield
        finally:
            sys.stdout = stream


class _FirstWord:
    """A stream that calls a function before anything is written to it."""

    def __init__(self, stream: TextIO | None, call: Callable[[], None]) -> None:
        self._stream, self._call = stream, call

    def write(self, text: str) -> int:
        """Write, once nobody else does."""
        self._call()
        return self._stream.write(text) if self._stream is not None else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

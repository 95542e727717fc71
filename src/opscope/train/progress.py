"""A progress bar on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_WIDTH = 24
_EVERY = 0.1
"""Seconds between two drawings."""


class Progress:
    """One line on a terminal that is drawn over and over; nothing where it is not wanted.

    `shown` None means: if stderr is a terminal.
    """

    def __init__(self, title: str, total: int | None, shown: bool | None) -> None:
        self._title = title
        self._total = total
        self._shown = sys.stderr is not None and sys.stderr.isatty() if shown is None else shown
        self._done = 0
        self._tell: Callable[[], str] = str
        self._begin = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown and self._done:
            self._draw("\n")

    def advance(self, tell: Callable[[], str] = str) -> None:
        """One more step is done; `tell` has more to say, where it is drawn."""
        if not self._shown:
            return
        self._done += 1
        self._tell = tell
        if time.monotonic() - self._drawn >= _EVERY:
            self._draw("")

    def _draw(self, end: str) -> None:
        self._drawn = time.monotonic()
        rate = self._done / max(self._drawn - self._begin, 1e-9)
        bar, count = "", f"{self._done} steps"
        if self._total:
            filled = min(_WIDTH, _WIDTH * self._done // self._total)
            bar = f"[{'=' * filled}{' ' * (_WIDTH - filled)}] "
            count = f"{self._done}/{self._total}"
        line = f"{self._title} {bar}{count}, {rate:.3g} steps/s{self._tell()}"
        try:
            sys.stderr.write(f"\r\x1b[K{line}{end}" if sys.stderr.isatty() else f"\r{line}{end}")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            self._shown = False

"""What opscope says to the person: to stderr, each warning once, never to stdout."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

_said: set[str] = set()
_lock = threading.Lock()


def say(text: str) -> None:
    """Print a line for the person; stdout belongs to the script."""
    try:
        sys.stderr.write(f"opscope: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # stderr is closed: nobody is listening, and training goes on.
        return


def say_lines(lines: Sequence[str]) -> None:
    """Print lines as they are, in one piece even if other processes print too."""
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def say_once(text: str, key: str = "") -> None:
    """Like `say`, but only the first time for this `key` (the text itself by default)."""
    with _lock:
        if (key or text) in _said:
            return
        _said.add(key or text)
    say(text)


def forget_said() -> None:
    """Start a new conversation, as a new session in the same process does."""
    with _lock:
        _said.clear()

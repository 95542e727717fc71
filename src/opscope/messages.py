"""Messages of opscope to the person: to stderr, each warning once, never to stdout."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

from opscope.escapes import escaped
from opscope.spelling import spelled
from opscope.waiting import step_aside
from opscope.wording import folded

_said: set[str] = set()
_lock = threading.Lock()
_hearers: list[Callable[[str], None]] = []
"""Functions that keep all that is said, for a log file for instance."""


def on_say(hearer: Callable[[str], None]) -> None:
    """Have a function called with all that is said from here on, in place of one before."""
    _hearers[:] = [hearer]


def say(text: str) -> None:
    """Print a line for the person; stdout belongs to the script."""
    _write(f"opscope: {escaped(text)}\n")


def say_lines(lines: Sequence[str], indent: int = 0) -> None:
    """Print lines in one piece, even if other processes print too.

    A terminal gets those that do not fit in several, the later ones with an indentation.
    """
    width = _width()
    if width:
        lines = [part for line in lines for part in folded(line, width, indent)]
    _write("".join(f"{line}\n" for line in lines))


def _width() -> int:
    """The columns of the terminal that stderr is, or 0."""
    try:
        if not sys.stderr.isatty():
            return 0
        import shutil  # with what it needs, a tenth of `import opscope`

        return shutil.get_terminal_size().columns
    except Exception:  # noqa: BLE001 - a script may have put anything in its place
        return 0


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


def mend_streams() -> None:
    """Replace a stdout or stderr that cannot be flushed, or Python ends with exit code 120."""
    for name in ("stdout", "stderr"):
        if not _can_end(getattr(sys, name, None)):
            first = getattr(sys, f"__{name}__")
            setattr(sys, name, first if _can_end(first) else None)


def _can_end(stream: object) -> bool:
    """Tell whether Python can do without a stream, or flush it, when it ends."""
    return stream is None or bool(getattr(stream, "closed", False)) or _flush(stream)


def _write(text: str) -> None:
    """Write to what the script has made of stderr; if nobody can listen, training goes on."""
    for hearer in _hearers:
        hearer(text)
    step_aside()
    stream = sys.stderr
    if stream is None:
        return
    try:
        stream.write(spelled(text, getattr(stream, "encoding", None)))
    except Exception:  # noqa: BLE001 - it may be any object, and raise anything
        return
    _flush(stream)


def _flush(stream: object) -> bool:
    """Flush a stream, and say whether that worked."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001
        return False
    return True

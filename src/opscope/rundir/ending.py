"""The end of a rank's process, as `end.json` has it."""

from __future__ import annotations

import errno
from dataclasses import asdict, dataclass
from typing import Any

from opscope.errors import OpscopeError

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
_LONGEST = 300
_WORDS = {errno.ENOSPC: "disk full", errno.EDQUOT: "disk quota used up"}


@dataclass(frozen=True)
class Ending:
    """The end of training: finished, stopped by a hit, or failed with an exception."""

    state: str = FINISHED
    reason: str = ""
    """The exception's type, or in a word what was hit."""
    message: str = ""
    """The exception's first line, or that of the hit."""
    step: int | None = None
    """The step that was under way."""

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)


def failure(error: BaseException, step: int | None) -> Ending:
    """Return how an exception ends training; leaving without a code, or with 0, is finishing."""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return Ending()
        if isinstance(error.__context__, Exception):  # as torch's own starter of ranks leaves
            error = error.__context__
    return Ending(FAILED, type(error).__name__, _first_line(error), step)


def in_words(error: Exception) -> str:
    """Say why recording failed."""
    if isinstance(error, OSError):
        return _WORDS.get(error.errno or 0) or error.strerror or str(error)
    if isinstance(error, OpscopeError):
        return str(error)
    return f"internal error ({type(error).__name__}: {_first_line(error)})"


def _first_line(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the script's own exception may fail to tell
        return ""
    return text.strip().partition("\n")[0][:_LONGEST]

"""Errors that are meant for the person; each carries the exit code it ends the program with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HIT = 3
"""The exit code of a program that a hit has ended, or that found hits."""
INTERRUPTED = 130
"""The exit code of a program that the person has ended with Ctrl-C."""


class OpscopeError(Exception):
    """A problem the person can act on; printed as sentences, without a traceback."""

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints in place of a traceback."""
        return [f"opscope: {line}" for line in str(self).split("\n")]


class InterruptedByPersonError(OpscopeError):
    """Ctrl-C, before there was anything else to end."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a config: where it stands and what would be right."""

    file: str
    key: str
    value: Any
    message: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        shown = "" if self.value is MISSING else f" = {_short(self.value)}"
        return f"{where}{shown}: {self.message}"


class _Missing:
    """Marks a key that is not there at all."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class ConfigError(OpscopeError):
    """Every problem found in the settings, all at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _short(value: Any, limit: int = 120) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""A person who has just installed opscope, in a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from helpers.program import clean_environment
from helpers.terminal import in_terminal

COLUMNS = 80
_HINT = re.compile(r"(?:next|hits|with|of them|scopes): (opscope [^`;\n]+)")
_WAITS = {"view": "http://", "serve": "trainings connect"}
"""Verbs that answer until Ctrl-C, and what they say when they do."""
_FITTING = ("runs", "nodes", "show", "hits", "query", "check")
"""Verbs whose lines are never longer than the terminal is wide."""


class Newcomer:
    """Types commands, keeps what was printed, and follows every hint."""

    def __init__(self, program: Sequence[str | Path], folder: Path, **environ: str) -> None:
        self._program, self._folder = program, folder
        self._environment = clean_environment(**environ) | {"TERM": "xterm", "HOME": str(folder)}
        self.hints: list[str] = []
        self._followed: set[str] = set()

    def type(self, *words: str, code: int = 0) -> str:
        """Run `opscope …`: it ends as it should, without a traceback, and fits the terminal."""
        done = in_terminal(
            [*self._program, *words],
            self._folder,
            self._environment,
            COLUMNS,
            until=_WAITS.get(words[0], ""),
            timeout=280,
        )
        line = f"opscope {shlex.join(words)}"
        assert "Traceback" not in done.text, f"{line}\n{done.text}"
        assert done.code == code, f"{line} ended with {done.code}\n{done.text}"
        if words[0] in _FITTING:
            self._check_width(line, done.text)
        self.hints += [hint.strip() for hint in _HINT.findall(done.text)]
        return done.text

    def follow_hints(self) -> list[str]:
        """Type what opscope said to type, as it stands, and what that says in turn."""
        while self.hints:
            hint = self.hints.pop()
            if hint not in self._followed:
                self._followed.add(hint)
                self.type(*shlex.split(hint)[1:])
        return sorted(self._followed)

    def _check_width(self, line: str, text: str) -> None:
        """Only sentences that are said beside the answer may be longer."""
        shown = [each.rsplit("\x1b[K", 1)[-1] for each in text.split("\n")]
        wide = [each for each in shown if len(each) > COLUMNS and not each.startswith("opscope: ")]
        assert not wide, f"{line} prints a line of {len(wide[0])}:\n{wide[0]}"

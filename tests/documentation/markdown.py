"""The blocks of a page, with the invisible notes that stand before them.

A note is an HTML comment on a line of its own. It says how a block is run:

    not run: REASON       it cannot be, here
    first: COMMAND        a command that goes before it
    saved as FILE         the block is this file in the reader's folder
    part of FILE          the block is a part of this file
    printed by: COMMAND   the block is a part of what this prints
    printed above         the block is a part of what the one before it prints
    form of a command     verbs and options, with names in place of values
    in a test             the block is a file of tests
    exit code N           what the last command ends with, if not 0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")))
KINDS = (
    *("not run", "first", "saved as", "part of", "printed by", "printed above"),
    *("form of a command", "in a test", "exit code"),
)
_NOTE = re.compile(rf"<!-- ({'|'.join(KINDS)}):? ?(.*?) -->")
_FENCE = re.compile(r"( *)```(.*)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    notes: tuple[tuple[str, str], ...]

    def note(self, kind: str) -> str | None:
        """What the first note of a kind says; None if there is none."""
        return next((text for name, text in self.notes if name == kind), None)

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """All blocks of a page, in order."""
    found: list[Block] = []
    notes: list[tuple[str, str]] = []
    lines = iter(enumerate((ROOT / page).read_text().splitlines(), 1))
    for number, line in lines:
        if line.startswith("<!--"):
            notes.append(_note(f"{page}:{number}", line))
        elif fence := _FENCE.fullmatch(line):
            inside = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                inside.append(inner)
            text = "".join(f"{each.removeprefix(fence[1])}\n" for each in inside)
            found.append(Block(page, number, fence[2].strip(), text, tuple(notes)))
            notes = []
        elif line.strip():
            assert not notes, f"{page}:{number}: a note stands before no block"
    return found


def _note(place: str, line: str) -> tuple[str, str]:
    match = _NOTE.fullmatch(line)
    assert match, f"{place}: this note means nothing: {line}"
    return match[1], match[2]

"""The lines of `steps.jsonl` within their bound: recent steps whole, older ones thinned.

When there is no room left the file is replaced by one in which the newer part is whole, and of what
is older every 2nd step is kept, then every 4th, every 8th and so on, each over a stretch twice as
long as the one before. Steps are counted from the first, as those of the rows are, so that those
that are kept of either are mostly the same.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

from opscope.atomic_files import write_whole
from opscope.messages import say_once
from opscope.rundir.jsonlines import JsonLines

_FULL_AGAIN = 3 / 4
"""The share of the room that may be taken after thinning: else it would be due again at once."""
_SHARE = 512
"""The file may take so small a part of the budget: all its lines are read when a run is opened."""
_LEAST = 1 << 20
_FEW = 4
"""With so few lines nothing is thinned, however little room there is."""


def limit_within(budget: int) -> int:
    """Return how many bytes the file may have in a run of this budget."""
    return max(budget // _SHARE, _LEAST)


class StepLog:
    """Appends the steps of a rank to a file of at most `limit` bytes, as far as that can be."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._due = limit
        self._lines = JsonLines(path)
        self._numbers, self._sizes = array("q"), array("q")
        """Of each line in the file: which step it is, counted from the first, and its bytes."""
        self._count = 0

    def append(self, record: dict[str, Any]) -> None:
        """Write a step, a plain record; its line says how many there were before it."""
        before = self._lines.size
        self._lines.append_plain({**record, "number": self._count})
        self._numbers.append(self._count)
        self._sizes.append(self._lines.size - before)
        self._count += 1
        if self._lines.size > self._due:
            self._thin()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _thin(self) -> None:
        """Replace the file; where that cannot be done now it may grow a little before the next."""
        kept = self._chosen()
        self._due = self._lines.size + self._limit // 8
        try:
            content = self._content(kept)
            write_whole(self._path, content)
        except OSError:
            return
        self._lines.close()
        self._lines = JsonLines(self._path)
        self._numbers = array("q", (self._numbers[place] for place in kept))
        self._sizes = array("q", (self._sizes[place] for place in kept))
        self._due = max(self._limit, self._lines.size + self._limit // 8)
        say_once(
            f"{self._path} has reached {self._limit} bytes: from now on the older steps are thinned"
        )

    def _chosen(self) -> list[int]:
        """The places of the lines that are kept."""
        whole = self._count
        kept = list(range(len(self._numbers)))
        while whole > _FEW and sum(map(self._sizes.__getitem__, kept)) > self._room:
            whole //= 2
            kept = [place for place in kept if self._stays(self._numbers[place], whole)]
        return kept

    @property
    def _room(self) -> int:
        return int(self._limit * _FULL_AGAIN)

    def _stays(self, number: int, whole: int) -> bool:
        """Tell whether a step is kept where so many of the last are whole."""
        level = ((self._count - 1 - number) // whole).bit_length()
        return number % (1 << level) == 0

    def _content(self, kept: list[int]) -> bytes:
        with open(self._path, "rb") as file:
            lines = file.read()
        if len(lines) != sum(self._sizes):
            raise OSError("somebody else has changed the file")
        ends = array("q", [0])
        for size in self._sizes:
            ends.append(ends[-1] + size)
        return b"".join(lines[ends[place] : ends[place + 1]] for place in kept)

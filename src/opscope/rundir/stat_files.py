"""The files of rows of a rank: their names, and which of them hold what others held before.

A segment is `000012.rows`. What segments 0 to 12 have been thinned into, at level 2, is
`000000-000012.2.rows`. Beside either lie `.index` and, if it was thinned, `.between`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opscope.regular import entries, is_directory

ROWS, INDEX, BETWEEN = ".rows", ".index", ".between"
_NAME = re.compile(r"(\d{6,9})(?:-(\d{6,9})\.(\d{1,2}))?\.rows")
_ATTEMPTS = 100


@dataclass(frozen=True)
class StatFile:
    """One file of rows, and the segments whose rows it holds."""

    first: int
    last: int
    level: int
    directory: Path

    @property
    def stem(self) -> str:
        """Its name without what it holds."""
        if self.level == 0:
            return f"{self.first:06d}"
        return f"{self.first:06d}-{self.last:06d}.{self.level}"

    @property
    def rows(self) -> Path:
        """The rows themselves."""
        return self.directory / f"{self.stem}{ROWS}"

    @property
    def index(self) -> Path:
        """The file that says where which rows are."""
        return self.directory / f"{self.stem}{INDEX}"

    @property
    def between(self) -> Path:
        """Extremes of the steps that were left out."""
        return self.directory / f"{self.stem}{BETWEEN}"


def segment(directory: Path, number: int) -> StatFile:
    """The file that rows are first written to."""
    return StatFile(number, number, 0, directory)


def stat_files(directory: Path) -> list[StatFile]:
    """The files that hold each row once, oldest first, also while they are being thinned.

    Files come before those they replace go, but a directory is not read at one moment: it is read
    until it stays the same.
    """
    names = _names(directory)
    for _ in range(_ATTEMPTS):
        again = _names(directory)
        if again == names:
            break
        names = again
    return in_force(file for name in names if (file := _parse(directory, name)))


def in_force(files: Iterable[StatFile]) -> list[StatFile]:
    """Those that no other file replaces, oldest first."""
    found: list[StatFile] = []
    for file in sorted(files, key=lambda file: (file.first, -file.last, -file.level)):
        if not found or file.last > found[-1].last:
            found.append(file)
    return found


def _names(directory: Path) -> set[str]:
    if not is_directory(directory):
        return set()
    return {path.name for path in entries(directory) if path.name.endswith(ROWS)}


def _parse(directory: Path, name: str) -> StatFile | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first = int(match[1])
    if match[2] is None:
        return StatFile(first, first, 0, directory)
    return StatFile(first, int(match[2]), int(match[3]), directory)

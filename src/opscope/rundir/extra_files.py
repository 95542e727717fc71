"""The files of extra statistics of a rank: which they are, and their numbers.

`statistics.json` names them and says what each is. `000000.numbers` and further ones are plain
arrays of records, one for each value: a head that says whose the numbers are, and the numbers.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opscope.atomic_files import write_whole
from opscope.messages import say_once
from opscope.regular import entries, is_directory
from opscope.rundir.jsonlines import encode
from opscope.wording import size

if TYPE_CHECKING:
    from opscope.stats.extra import ExtraStatistic

STATISTICS = "statistics.json"
HEAD_BYTES = 24
_HEAD = {
    "step": ("<i4", 0),
    "node": ("<u4", 4),
    "call": ("<u4", 8),
    "slot": ("<u4", 12),
    "io": ("u1", 16),
}
HEAD_FIELDS = frozenset(_HEAD)
"""Names that no statistic can have."""
_HEAD_FORMAT = "<iIIIB7x"
_NUMBERS = re.compile(r"\d{6,9}\.numbers")
_LARGEST_FILE = 16 << 20
_LEAST_FILES = 16
"""A budget holds at least so many files: when there is no room left, the oldest of them goes."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


def record_type(names: Sequence[str]) -> np.dtype[np.void]:
    """The records of values with these statistics."""
    numbers = {name: ("<f8", HEAD_BYTES + 8 * place) for place, name in enumerate(names)}
    fields = {**_HEAD, **numbers}
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": HEAD_BYTES + 8 * len(names),
        }
    )


def number_files(directory: Path) -> list[Path]:
    """The files with numbers there are, oldest first."""
    if not is_directory(directory):
        return []
    found = (path for path in entries(directory) if _NUMBERS.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem))


class ExtraFiles:
    """Appends the records of a rank in `directory`, each in one write, within `budget` bytes."""

    def __init__(self, directory: Path, statistics: Sequence[ExtraStatistic], budget: int) -> None:
        directory.mkdir()
        told = [{"name": each.name, "meaning": each.meaning} for each in statistics]
        write_whole(directory / STATISTICS, encode({"statistics": told}, indent=1))
        self._directory = directory
        self._budget = budget
        self._file_bytes = min(_LARGEST_FILE, budget // _LEAST_FILES)
        self._sizes: dict[Path, int] = {}
        """By file, oldest first."""
        self._number = -1
        self._file = -1
        self._path = directory

    def append(self, record: bytes) -> None:
        """Write one record; OSError if that cannot be done."""
        if self._file < 0 or self._sizes[self._path] + len(record) > self._file_bytes:
            self._begin_file()
        self._sizes[self._path] += len(record)
        while record:  # once, unless the disk is full: then the second write says so
            record = record[os.write(self._file, record) :]

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _begin_file(self) -> None:
        self.close()
        while self._sizes and sum(self._sizes.values()) + self._file_bytes > self._budget:
            self._drop_oldest()
        self._number += 1
        self._path = self._directory / f"{self._number:06d}.numbers"
        self._file = os.open(self._path, _NEW, 0o644)
        self._sizes[self._path] = 0

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._sizes))
        del self._sizes[oldest]
        oldest.unlink(missing_ok=True)
        say_once(
            f"the extra statistics in {self._directory} have reached their budget of "
            f"{size(self._budget)}; from now on the oldest are dropped"
        )


class RecordFormat:
    """Makes records of so many numbers."""

    def __init__(self, numbers: int) -> None:
        self._struct = struct.Struct(f"{_HEAD_FORMAT}{numbers}d")

    def record(
        self, step: int, node: int, call: int, slot: int, io: int, numbers: Sequence[float]
    ) -> bytes:
        """The record of one value."""
        return self._struct.pack(step, node, call, slot, io, *numbers)

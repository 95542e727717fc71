"""The closed files of rows of a rank within their budget: recent steps whole, older ones thinned.

Level 0 is what was written. When there is no room left the oldest files of a level are thinned into
one of the next, which keeps every other step of it: of level 2 there is every fourth step. Level 0
may take half of the room, the others share the rest.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opscope.atomic_files import write_whole
from opscope.messages import say_once
from opscope.rundir.row_index import Records, build_index, encode_index
from opscope.rundir.stat_files import StatFile
from opscope.rundir.thinning import (
    BETWEEN_BYTES,
    BETWEEN_DTYPE,
    EveryOther,
    StepNumbers,
    join_between,
    steps_in,
    thin,
)
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, VALID, heads_of, joined
from opscope.wording import size

MIB = 1 << 20
LEVELS = 30
"""At the deepest level one step in 2**30 is kept; what does not fit there is dropped."""
_LARGEST_BATCH = 16 * MIB
_LEAST_STEPS = 4
"""Fewer steps are not thinned: too little would be gained for the work."""


@dataclass(slots=True)
class _Closed:
    file: StatFile
    rows: int
    size: int
    """Bytes of rows, index and extremes."""
    steps: StepNumbers
    """Those it has rows of, in order."""
    records: Records | None = None
    """Its rows, while a device may still fill in some of them."""


class RowHistory:
    """Keeps the files of `directory` below `budget` bytes."""

    def __init__(self, directory: Path, budget: int) -> None:
        self._directory = directory
        self._budget = budget
        self._batch = min(budget // 32, _LARGEST_BATCH)
        self._limit = budget - self._batch
        self._files: list[_Closed] = []
        self._unsettled: list[_Closed] = []
        self._every = [EveryOther() for _ in range(LEVELS)]
        self.thinned = 0
        """The number of rows known by extremes only."""
        self.dropped = 0
        """The number of rows not known at all any more."""

    def add(self, file: StatFile, records: Records) -> None:
        """Take in the rows of a segment that was closed."""
        size, heads = len(records) * ROW_BYTES, heads_of(records)
        closed = _Closed(file, len(records), size, steps_in(heads), records)
        self._files.append(closed)
        if (heads["valid"] == VALID).all():
            self._finish(closed, heads)
        else:
            self._unsettled.append(closed)

    def settle(self, step: int | None = None) -> None:
        """Settle the rows up to this step, or all: nothing fills them in any more."""
        waiting, self._unsettled = self._unsettled, []
        for closed in waiting:
            records = closed.records
            if records is None or step is None or (records["step"] <= step).all():
                self._finish(closed, None if records is None else heads_of(records))
            else:
                self._unsettled.append(closed)

    def make_room(self, size: int) -> None:
        """Thin or drop the oldest until so many bytes more are within the budget."""
        while self._files and self._size() + size > self._limit:
            batch = self._oldest_batch()
            if not batch or not self._thin(batch):
                self._drop()

    def _size(self) -> int:
        return sum(closed.size for closed in self._files)

    def _finish(self, closed: _Closed, heads: Records | None) -> None:
        """Write the index; readers do without where there is no room for it."""
        closed.records = None
        if heads is not None:
            with contextlib.suppress(OSError):
                closed.size += _write_index(closed.file, heads)

    def _oldest_batch(self) -> list[_Closed]:
        """The oldest files of the level that has most of its share and can be thinned."""
        sizes: dict[int, int] = {}
        for closed in self._files:
            sizes[closed.file.level] = sizes.get(closed.file.level, 0) + closed.size
        deepest = max(sizes)
        # The share of a level below is that of all levels below, divided by their number.
        weighed = {level: size * (deepest if level else 1) for level, size in sizes.items()}
        for level in sorted(weighed, key=lambda level: (-weighed[level], level)):
            batch = self._oldest_of(level) if level < LEVELS else []
            if batch:
                return batch
        return []

    def _oldest_of(self, level: int) -> list[_Closed]:
        """Enough to be worth it and so few that it takes a moment only; two of thinned ones.

        Gaps of two files that are thinned together may join.
        """
        least = 2 if level else 1
        batch: list[_Closed] = []
        size = 0
        for closed in self._files:
            if closed.file.level != level:
                continue
            is_enough = len(batch) >= least and _count_steps(batch) >= _LEAST_STEPS
            size += closed.size
            if closed.records is not None or (is_enough and size > self._batch):
                break
            batch.append(closed)
        return batch if _count_steps(batch) >= _LEAST_STEPS else []

    def _thin(self, batch: Sequence[_Closed]) -> bool:
        """Replace files by one of the next level; false if that cannot be done.

        It must not raise: somebody may have cut or deleted files, and training goes on.
        """
        level = batch[0].file.level
        file = StatFile(batch[0].file.first, batch[-1].file.last, level + 1, self._directory)
        try:
            records = joined([_read(closed.file.rows, ROW_DTYPE) for closed in batch])
            between = join_between([_read(c.file.between, BETWEEN_DTYPE) for c in batch if level])
            kept = self._every[level].choose(steps_in(records))
            thinned = thin(records, between, kept)
            size = _write_thinned(file, thinned.records, thinned.between)
        except (OSError, ValueError, MemoryError):
            return False
        self._tell_of_thinning()
        self.thinned += sum(closed.rows for closed in batch) - len(thinned.records)
        place = self._files.index(batch[0])
        made = _Closed(file, len(thinned.records), size, kept)
        self._files[place : place + len(batch)] = [made]
        for closed in batch:
            _remove(closed.file)
        return True

    def _drop(self) -> None:
        closed = self._files.pop(0)
        self.dropped += closed.rows
        _remove(closed.file)
        say_once(
            f"the statistics in {self._directory} do not fit into their budget of "
            f"{size(self._budget)}; from now on the oldest are dropped"
        )

    def _tell_of_thinning(self) -> None:
        say_once(
            f"the statistics in {self._directory} have reached their budget of "
            f"{size(self._budget)}; from now on the older steps are thinned: "
            "of those left out the extremes are kept"
        )


def _count_steps(batch: Sequence[_Closed]) -> int:
    """Count the steps of some files; one that lies in two of them counts once."""
    found = [closed.steps for closed in batch if len(closed.steps)]
    shared = sum(int(a[-1] == b[0]) for a, b in itertools.pairwise(found))
    return sum(map(len, found)) - shared


def _write_thinned(file: StatFile, records: Records, between: Records) -> int:
    """Write a file of rows with what belongs to it, the rows last; returns the bytes."""
    write_whole(file.between, _bytes_of(between))
    size = _write_index(file, heads_of(records))
    write_whole(file.rows, _bytes_of(records))
    return size + len(records) * ROW_BYTES + len(between) * BETWEEN_BYTES


def _write_index(file: StatFile, heads: Records) -> int:
    content = encode_index(build_index(heads))
    write_whole(file.index, content)
    return len(content)


def _read(path: Path, dtype: np.dtype[np.void]) -> Records:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, dtype)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)


def _bytes_of(records: Records) -> memoryview:
    return records.view(np.uint8).data


def _remove(file: StatFile) -> None:
    for path in (file.rows, file.index, file.between):
        path.unlink(missing_ok=True)

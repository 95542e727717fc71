"""`statistic.csv`: one row of numbers per value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import add, attrgetter
from typing import TYPE_CHECKING

import numpy as np

from opscope.dump import csvtext
from opscope.dump.batch import Batch
from opscope.dump.digest import ALGORITHMS, MD5, SHA1
from opscope.dump.dtypes import element_size
from opscope.dump.subject import Kind, Subject
from opscope.events import IO
from opscope.stats.native_cpu import render_lines
from opscope.stats.record import INPUT, OUTPUT

if TYPE_CHECKING:
    from opscope.stats.row import Row

FILE_NAME = "statistic.csv"
LINE_END = "\r\n"
_FIXED = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
_NUMBERS = {
    "max": ("Max Value", "max"),
    "min": ("Min Value", "min"),
    "avg": ("Avg Value", "mean"),
    "count": ("Count", "count"),
    "negative zero count": ("Negative Zero Count", "negative"),
    "positive zero count": ("Positive Zero Count", "positive"),
    "nan count": ("NaN Count", "nan"),
    "negative inf count": ("Negative Inf Count", "neginf"),
    "positive inf count": ("Positive Inf Count", "posinf"),
    "zero count": ("Zero Count", "zero"),
    "l2norm": ("L2Norm Value", "l2"),
}
_DIGESTS = {MD5: "MD5", SHA1: "SHA1"}
_SIDES = {INPUT: IO.INPUT.value, OUTPUT: IO.OUTPUT.value}


class Columns:
    """The columns that the user's categories ask for, in their order, each once."""

    def __init__(self, categories: Sequence[str]) -> None:
        keys = dict.fromkeys(ALGORITHMS.get(category, category) for category in categories)
        self._getters = [None if key in _DIGESTS else attrgetter(_NUMBERS[key][1]) for key in keys]
        self.algorithms = [key for key in keys if key in _DIGESTS]
        self.numbers = [_NUMBERS[key][1] for key in keys if key not in _DIGESTS]
        titles = [_DIGESTS[key] if key in _DIGESTS else _NUMBERS[key][0] for key in keys]
        self.header = ",".join((_FIXED, *titles))

    def line(self, subject: Subject, row: Row, digests: Sequence[str] = ()) -> str:
        """One row, without its end; `digests` are in the order of `algorithms`."""
        waiting = iter(digests)
        numbers = [
            csvtext.number(getter(row)) if getter else next(waiting) for getter in self._getters
        ]
        return ",".join((_subject_fields(subject), *numbers))


_TAILS_REMEMBERED = 1 << 16


class Renderer:
    """Makes text of many rows that are ready; such rows have no digests."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._tails: dict[int, str] = {}

    def lines(self, batch: Batch) -> bytes:
        """The lines of a batch, with their ends."""
        return render_lines(batch.records, self._beginnings(batch), self._columns.numbers)

    def _beginnings(self, batch: Batch) -> list[str]:
        """The fields before the numbers."""
        labels, tasks = batch.records["node"], batch.records["call"]
        is_new = np.ones(len(labels), bool)
        np.not_equal(labels[1:], labels[:-1], out=is_new[1:])
        is_new[1:] |= tasks[1:] != tasks[:-1]
        calls = np.flatnonzero(is_new)
        streams, times = batch.moments[calls].T.tolist()
        names = batch.labels
        heads = [
            f"{names[label].head},{task},{stream},{time_us},"
            for label, task, stream, time_us in zip(
                labels[calls].tolist(), tasks[calls].tolist(), streams, times, strict=True
            )
        ]
        rows_per_call = np.diff(calls, append=len(labels))
        repeated = np.array(heads, object).repeat(rows_per_call).tolist()
        return list(map(add, repeated, self._ends(batch)))

    def _ends(self, batch: Batch) -> list[str]:
        """Side, slot and kind of each row as text."""
        records = batch.records
        numbers = records["shape"].astype(np.int64) << 32
        numbers += records["slot"].astype(np.int64) << 1
        numbers += records["io"]
        keys: list[int] = numbers.tolist()
        try:
            return list(map(self._tails.__getitem__, keys))
        except KeyError:
            self._add_tails(set(keys), batch)
        return list(map(self._tails.__getitem__, keys))

    def _add_tails(self, keys: set[int], batch: Batch) -> None:
        if len(self._tails) > _TAILS_REMEMBERED:
            self._tails.clear()
        for key in keys.difference(self._tails):
            slot, io = (key & 0xFFFFFFFF) >> 1, _SIDES[key & 1]
            self._tails[key] = f"{io},{slot},{_kind_fields(Kind(*batch.kinds[key >> 32]))}"


def _subject_fields(subject: Subject) -> str:
    task, stream, time_us, io, slot = subject.moment
    return (
        f"{subject.label.head},{task},{stream},{time_us},{io},{slot},{_kind_fields(subject.kind)}"
    )


@lru_cache(maxsize=4096)
def _kind_fields(kind: Kind) -> str:
    size = math.prod(kind.shape) * element_size(kind.dtype)
    return f"{size},{kind.dtype},{csvtext.shape(kind.shape)}"

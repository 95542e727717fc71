"""`statistic.csv`: one row of numbers per value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from opscope.dump.format import csvtext
from opscope.dump.format.digest import ALGORITHMS, MD5, SHA1
from opscope.dump.format.subject import StoredType, Subject
from opscope.dump.format.table_rows import TableRows
from opscope.stats.native_cpu import render_lines
from opscope.stats.texts import Texts

if TYPE_CHECKING:
    from opscope.stats.row import Row

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
_BITS = re.compile(r"\d+")
_DIGESTS = {MD5: "MD5", SHA1: "SHA1"}


class StatisticColumns:
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


class Renderer:
    """Makes text of many rows that are ready; such rows have no digests."""

    def __init__(self, columns: StatisticColumns) -> None:
        self._columns = columns
        self._labels, self._kinds = Texts(), Texts()

    def lines(self, batch: TableRows) -> bytes:
        """The lines of a batch, with their ends."""
        records, moments = batch.records, batch.moments
        for number in self._labels.missing(records["node"]):
            self._labels.add(number, batch.labels[number].head)
        for number in self._kinds.missing(records["shape"]):
            self._kinds.add(number, _kind_fields(StoredType(*batch.kinds[number])))
        return render_lines(records, moments, self._labels, self._kinds, self._columns.numbers)


def _subject_fields(subject: Subject) -> str:
    task, stream, time_us, io, slot = subject.moment
    return (
        f"{subject.label.head},{task},{stream},{time_us},{io},{slot},{_kind_fields(subject.kind)}"
    )


@lru_cache(maxsize=4096)
def _kind_fields(kind: StoredType) -> str:
    size = math.prod(kind.shape) * _element_size(kind.dtype)
    return f"{size},{kind.dtype},{csvtext.shape(kind.shape)}"


@lru_cache(maxsize=256)
def _element_size(dtype: str) -> int:
    """The bytes of one element: 2 for "bfloat16", 1 for "float8_e4m3fn", "int4" and "bool"."""
    match = _BITS.search(dtype)
    bits = int(match.group()) if match else 8
    return (bits + 7) // 8

"""One file of rows, read where it lies: a closed one is mapped while it is looked at.

Mapped pages count as memory of this process for as long as they are mapped, and a look at one row
may map a megabyte around it; so no map outlives the question it was made for.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.messages import say_once
from opscope.regular import open_regular, why, with_more_files
from opscope.rundir.row_index import RowIndex, build_index, decode_index
from opscope.rundir.stat_files import StatFile
from opscope.rundir.thinning import BETWEEN_DTYPE, join_between
from opscope.stats.record import (
    OUTPUT,
    ROW_BYTES,
    ROW_DTYPE,
    UINT,
    VALID,
    heads_of,
    joined,
    taken,
)

Records = NDArray[np.void]
"""Statistics rows as a structured array of `ROW_DTYPE`."""

_CHUNK = 1 << 20
_APART = 16
"""Rows of which there are fewer than one in so many are read one by one."""


class RowPart:
    """One file of rows, closed or as far as it is written."""

    def __init__(
        self,
        file: StatFile,
        rows: _Opened | Records,
        index: RowIndex | None = None,
        between: _Opened | None = None,
    ) -> None:
        self.file = file
        self.is_final = index is not None
        """True if nothing is written to it any more."""
        self._rows = rows
        self._index = index
        self._between = between

    @property
    def records(self) -> Records:
        """All that is in it."""
        return self._rows.records(ROW_DTYPE) if isinstance(self._rows, _Opened) else self._rows

    @property
    def between(self) -> Records:
        """Extremes of what was left out, by node."""
        return join_between([]) if self._between is None else self._between.records(BETWEEN_DTYPE)

    @property
    def index(self) -> RowIndex:
        """The index of its rows; made here if the file has none that can be used."""
        if self._index is None:
            self._index = build_index(heads_of(self.records))
        return self._index

    def stats(self, nodes: Collection[int] | None, steps: Collection[int] | None) -> Records:
        """The valid rows, of some nodes or steps only, if given."""
        if nodes is not None:
            return self._of_nodes(nodes, steps)
        records = self.records
        if steps is None:
            return _valid(records)
        ranges = self.index.of_steps(steps)
        found = joined([_valid(records[begin:end]) for begin, end in ranges])
        return found if _is_of(found, "step", steps) else self._mended().stats(nodes, steps)

    def between_of(self, nodes: Collection[int] | None) -> Records:
        """Extremes of what was left out, of some nodes only, if given."""
        between = self.between
        if nodes is None:
            return between
        column = between["node"]
        everything = range(len(column))
        parts = []
        for node in sorted(nodes):
            begin = bisect_left(everything, node, key=lambda i: int(column[i]))
            end = bisect_right(everything, node, lo=begin, key=lambda i: int(column[i]))
            if end > begin:
                parts.append(between[begin:end])
        return join_between(parts)

    def _of_nodes(self, nodes: Collection[int], steps: Collection[int] | None) -> Records:
        try:
            found = self._gathered(self._which(nodes, steps))
        except (OSError, ValueError):  # the index was removed, or is not what it was
            found = None
        if found is None or not _is_of(found, "node", nodes):
            return self._mended().stats(nodes, steps)
        if steps is not None and not _is_of(found, "step", steps):
            return self._mended().stats(nodes, steps)
        return _valid(found)

    def _which(self, nodes: Collection[int], steps: Collection[int] | None) -> NDArray[np.uint32]:
        """The numbers of the rows of some nodes, of some steps only, if given, in order."""
        if steps is None:
            return np.sort(self.index.of_nodes(nodes))
        runs = np.array(self.index.of_steps(steps), np.uint32).reshape(-1, 2)
        if not len(runs):
            return np.empty(0, np.uint32)
        rows = np.sort(self.index.of_nodes(nodes))
        run = np.searchsorted(runs[:, 0], rows, "right") - 1
        inside: NDArray[np.bool_] = (run >= 0) & (rows < runs[run, 1])
        return rows[inside]

    def _gathered(self, which: NDArray[np.uint32]) -> Records | None:
        """Some rows, None if there are not so many; those that lie apart are read one by one."""
        count = self._rows.count if isinstance(self._rows, _Opened) else len(self._rows)
        if len(which) and int(which[-1]) >= count:
            return None
        if isinstance(self._rows, _Opened) and len(which) * _APART <= count:
            return self._rows.read(which)
        return taken(self.records, which)

    def _mended(self) -> RowPart:
        """The same with an index that was made here, since the one on disk says what is not so."""
        self._index = build_index(heads_of(self.records))
        return self


class _Opened:
    """A closed file of records, which is open as long as this is: it may be deleted meanwhile."""

    descriptor = -1

    def __init__(self, path: Path) -> None:
        self.descriptor = with_more_files(lambda: open_regular(path))

    @property
    def count(self) -> int:
        """The number of rows it has."""
        return os.fstat(self.descriptor).st_size // ROW_BYTES

    def records(self, kind: np.dtype[np.void]) -> Records:
        """All that is in it, mapped as long as somebody has it."""
        content = _mapped(self.descriptor)
        return np.frombuffer(content, kind, len(content) // kind.itemsize)

    def read(self, which: NDArray[np.uint32]) -> Records:
        """Some rows."""
        read, descriptor = os.pread, self.descriptor
        offsets = (which.astype(np.int64) * ROW_BYTES).tolist()
        data = b"".join([read(descriptor, ROW_BYTES, offset) for offset in offsets])
        return np.frombuffer(data, ROW_DTYPE)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def open_part(file: StatFile, earlier: RowPart | None, is_last: bool) -> RowPart:
    """A file of rows as it is now; FileNotFoundError if it was thinned away meanwhile."""
    content = _index_in(file)
    if is_last and not content:
        before = earlier.records if earlier is not None else np.empty(0, ROW_DTYPE)
        return RowPart(file, _follow(file.rows, before))
    rows = _Opened(file.rows)
    index = decode_index(content, rows.count, again=lambda: _map_of(file.index))
    return RowPart(file, rows, index, _extremes(file) if file.level else None)


def _extremes(file: StatFile) -> _Opened | None:
    try:
        return _Opened(file.between)
    except OSError as error:
        _do_without(file.between, file, error)
        return None


def _index_in(file: StatFile) -> Any:
    """The content of the index; empty if it is missing though the rows are there."""
    try:
        return _map_of(file.index)
    except OSError as error:
        _do_without(file.index, file, error)
        return b""


def _do_without(path: Path, file: StatFile, error: OSError) -> None:
    """Go on without what belongs to a file of rows and cannot be read, if the rows are there."""
    if not isinstance(error, FileNotFoundError):
        say_once(f"{path} {why(error)}; left out")
    elif not file.rows.exists():
        raise error


def _follow(path: Path, before: Records) -> Records:
    """The rows of the file that is being written: a copy, since the writer may cut it short."""
    unfinished = np.flatnonzero(before["valid"] != VALID)
    whole = before[: unfinished[0]] if len(unfinished) else before
    parts = [whole]
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(len(whole) * ROW_BYTES)
        while chunk := file.read(_CHUNK):
            chunk = chunk[: len(chunk) // ROW_BYTES * ROW_BYTES]
            if not np.frombuffer(chunk, np.uint8).any():
                break
            parts.append(np.frombuffer(chunk, ROW_DTYPE))
    found = joined(parts)
    valid = np.flatnonzero(found["valid"] == VALID)
    return found[: valid[-1] + 1] if len(valid) else found[:0]


def _map_of(path: Path) -> Any:
    descriptor = with_more_files(lambda: open_regular(path))
    try:
        return _mapped(descriptor)
    finally:
        os.close(descriptor)


def _mapped(descriptor: int) -> Any:
    """The content of a file, which is not read before it is looked at."""
    size = os.fstat(descriptor).st_size
    if not size:
        return b""
    return with_more_files(lambda: mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))


def _valid(records: Records) -> Records:
    """The rows that are whole, and that nobody has damaged."""
    valid = (records["valid"] == VALID) & (records["kind"] <= UINT) & (records["io"] <= OUTPUT)
    return records if valid.all() else taken(records, valid)


def _is_of(records: Records, field: str, wanted: Collection[int]) -> bool:
    """Tell whether an index has told the truth."""
    if not len(records):
        return True
    valid = bool((records["valid"] == VALID).all())
    return valid and bool(np.isin(records[field], list(wanted)).all())

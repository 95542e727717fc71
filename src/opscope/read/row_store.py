"""The rows of a rank, read where they lie: closed files are mapped, the open one is followed."""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.regular import open_regular, why
from opscope.rundir.row_index import RowIndex, build_index, decode_index
from opscope.rundir.stat_files import StatFile, stat_files
from opscope.rundir.thinning import BETWEEN_BYTES, BETWEEN_DTYPE, join_between
from opscope.stats.record import OUTPUT, ROW_BYTES, ROW_DTYPE, UINT, VALID, joined, taken

Records = NDArray[np.void]
"""Statistics rows as a structured array of `ROW_DTYPE`."""

_CHUNK = 1 << 20
_ATTEMPTS = 100
_APART = 16
"""Rows of which there are fewer than one in so many are read one by one."""


class RowStore:
    """All rows of a rank as they were at the last `refresh`; any thread may ask."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._parts: tuple[Part, ...] | None = None

    def refresh(self) -> None:
        """Take in what has been written since."""
        with self._lock:
            self._parts = self._load(self._parts or ())

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files there are, oldest first."""
        parts = self._parts
        if parts is None:
            with self._lock:
                parts = self._parts = self._load(()) if self._parts is None else self._parts
        return parts

    def stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Records:
        """The rows, in the order they were written; of some nodes or steps only, if given."""
        return _all_rows(self.parts, nodes, steps)

    def parts_of_stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """The same in parts of some megabytes; what a part took of memory goes with it."""
        return _rows_by_part(self.parts, nodes, steps)

    def between(self, nodes: Collection[int] | None = None) -> Records:
        """Extremes of the steps that were left out, in the order of files and then of nodes."""
        return _all_between(self.parts, nodes)

    def history(self, nodes: Collection[int]) -> tuple[Records, Records]:
        """The rows of some nodes, and the extremes of what was left out, of the same moment."""
        parts = self.parts
        return _all_rows(parts, nodes, None), _all_between(parts, nodes)

    def steps(self) -> list[int]:
        """The steps that have rows."""
        found = [np.unique(part.index.steps) for part in self.parts]
        return np.unique(np.concatenate(found)).tolist() if found else []

    def parts_of_between(self) -> Iterator[Records]:
        """Extremes of the steps that were left out, in parts."""
        for part in self.parts:
            yield part.between
            part.release()

    def _load(self, known: tuple[Part, ...]) -> tuple[Part, ...]:
        """Open what is there; a file that has just been thinned is looked for anew."""
        for _ in range(_ATTEMPTS):
            try:
                return self._open_all({part.file: part for part in known})
            except FileNotFoundError as error:
                gone = error
        raise OpscopeError(f"{self._directory} changes faster than it can be read: {gone}")

    def _open_all(self, known: dict[StatFile, Part]) -> tuple[Part, ...]:
        files = stat_files(self._directory)
        parts: list[Part] = []
        for file in files:
            earlier = known.get(file)
            if earlier is not None and earlier.is_final:
                parts.append(earlier)
                continue
            try:
                parts.append(_open(file, earlier, is_last=file is files[-1]))
            except FileNotFoundError:
                raise
            except OSError as error:
                say_once(f"{file.rows} {why(error)}; left out")
        return tuple(parts)


def _all_rows(
    parts: Sequence[Part], nodes: Collection[int] | None, steps: Collection[int] | None
) -> Records:
    return joined([rows for rows in _rows_by_part(parts, nodes, steps) if len(rows)])


def _rows_by_part(
    parts: Sequence[Part], nodes: Collection[int] | None, steps: Collection[int] | None
) -> Iterator[Records]:
    for part in parts:
        rows = part.stats(nodes, steps)
        yield rows
        if len(rows):
            part.release()


def _all_between(parts: Sequence[Part], nodes: Collection[int] | None) -> Records:
    return join_between([part.between_of(nodes) for part in parts])


class Part:
    """One file of rows."""

    def __init__(
        self,
        file: StatFile,
        records: Records,
        index: RowIndex | None = None,
        between: Records | None = None,
        opened: _Opened | None = None,
        beside: Any = b"",
    ) -> None:
        self.file = file
        self.records = records
        self.between = join_between([]) if between is None else between
        self.is_final = index is not None
        """True if nothing is written to it any more."""
        self._index = index
        self._opened = opened
        self._beside = beside

    @property
    def index(self) -> RowIndex:
        """The index of its rows; made here if the file has none that can be used."""
        if self._index is None:
            self._index = build_index(self.records)
        return self._index

    def stats(self, nodes: Collection[int] | None, steps: Collection[int] | None) -> Records:
        """The valid rows, of some nodes or steps only, if given."""
        if nodes is not None:
            return self._of_nodes(nodes, steps)
        if steps is None:
            return _valid(self.records)
        ranges = self.index.of_steps(steps)
        found = joined([_valid(self.records[begin:end]) for begin, end in ranges])
        return found if _is_of(found, "step", steps) else self._mended().stats(nodes, steps)

    def between_of(self, nodes: Collection[int] | None) -> Records:
        """Extremes of what was left out, of some nodes only, if given."""
        if nodes is None:
            return self.between
        column = self.between["node"]
        everything = range(len(column))
        parts = []
        for node in sorted(nodes):
            begin = bisect_left(everything, node, key=lambda i: int(column[i]))
            end = bisect_right(everything, node, lo=begin, key=lambda i: int(column[i]))
            if end > begin:
                parts.append(self.between[begin:end])
        return join_between(parts)

    def release(self) -> None:
        """Give back the memory that looking at the file took; the next look takes it again."""
        if self._opened is not None:
            _release(self._opened.content)
        _release(self._beside)

    def _of_nodes(self, nodes: Collection[int], steps: Collection[int] | None) -> Records:
        which = np.sort(self.index.of_nodes(nodes))
        if len(which) and int(which[-1]) >= len(self.records):
            return self._mended().stats(nodes, steps)
        found = self._gathered(which)
        if not _is_of(found, "node", nodes):
            return self._mended().stats(nodes, steps)
        found = _valid(found)
        return found if steps is None else taken(found, np.isin(found["step"], list(steps)))

    def _gathered(self, which: NDArray[np.uint32]) -> Records:
        """Rows that lie apart, read one by one: a map would bring in the pages around each."""
        if self._opened is None or len(which) * _APART > len(self.records):
            return taken(self.records, which)
        return self._opened.read(which)

    def _mended(self) -> Part:
        """The same with an index that was made here, since the one on disk says what is not so."""
        self._index = build_index(self.records)
        return self


class _Opened:
    """A closed file of rows: mapped, and open for reading some of them only."""

    descriptor = -1

    def __init__(self, path: Path) -> None:
        self.descriptor = open_regular(path)
        self.content = _mapped(self.descriptor)

    def read(self, which: NDArray[np.uint32]) -> Records:
        """Some rows."""
        read, descriptor = os.pread, self.descriptor
        offsets = (which.astype(np.int64) * ROW_BYTES).tolist()
        data = b"".join([read(descriptor, ROW_BYTES, offset) for offset in offsets])
        return np.frombuffer(data, ROW_DTYPE)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _open(file: StatFile, earlier: Part | None, is_last: bool) -> Part:
    beside = _map_beside(file, file.index)
    if is_last and not beside:
        before = earlier.records if earlier is not None else np.empty(0, ROW_DTYPE)
        return Part(file, _follow(file.rows, before))
    opened = _Opened(file.rows)
    records = np.frombuffer(opened.content, ROW_DTYPE, len(opened.content) // ROW_BYTES)
    extremes = _map_beside(file, file.between) if file.level else b""
    between = np.frombuffer(extremes, BETWEEN_DTYPE, len(extremes) // BETWEEN_BYTES)
    return Part(file, records, decode_index(beside, len(records)), between, opened, extremes)


def _map_beside(file: StatFile, path: Path) -> Any:
    """Return what belongs to a file of rows; empty if it is missing though the rows are there."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        if file.rows.exists():
            return b""
        raise
    except OSError as error:
        say_once(f"{path} {why(error)}; left out")
        return b""
    try:
        return _mapped(descriptor)
    finally:
        os.close(descriptor)


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


def _mapped(descriptor: int) -> Any:
    """The content of a file, which is not read before it is looked at."""
    size = os.fstat(descriptor).st_size
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""


def _release(content: Any) -> None:
    """Let go of the pages of a map that were looked at."""
    if isinstance(content, mmap.mmap):
        content.madvise(mmap.MADV_DONTNEED)


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

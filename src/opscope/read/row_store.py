"""The rows of a rank: those of its files that there are, and what is written to them since."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.read.row_part import RowPart, open_part
from opscope.regular import why
from opscope.rundir.stat_files import StatFile, stat_files
from opscope.rundir.thinning import join_between
from opscope.stats.record import joined

Records = NDArray[np.void]
"""Statistics rows as a structured array of `ROW_DTYPE`."""

_ATTEMPTS = 100


class RowStore:
    """All rows of a rank as they were at the last `refresh`; any thread may ask."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._parts: tuple[RowPart, ...] | None = None

    def refresh(self) -> None:
        """Take in what has been written since."""
        with self._lock:
            self._parts = self._load(self._parts or ())

    @property
    def parts(self) -> tuple[RowPart, ...]:
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
        """The same in parts of some megabytes."""
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

    def _load(self, known: tuple[RowPart, ...]) -> tuple[RowPart, ...]:
        """Open what is there; a file that has just been thinned is looked for anew."""
        for _ in range(_ATTEMPTS):
            try:
                return self._open_all({part.file: part for part in known})
            except FileNotFoundError as error:
                gone = error
        raise OpscopeError(f"{self._directory} changes faster than it can be read: {gone}")

    def _open_all(self, known: dict[StatFile, RowPart]) -> tuple[RowPart, ...]:
        files = stat_files(self._directory)
        parts: list[RowPart] = []
        for file in files:
            earlier = known.get(file)
            if earlier is not None and earlier.is_final:
                parts.append(earlier)
                continue
            try:
                parts.append(open_part(file, earlier, is_last=file is files[-1]))
            except FileNotFoundError:
                raise
            except OSError as error:
                say_once(f"{file.rows} {why(error)}; left out")
        return tuple(parts)


def _all_rows(
    parts: Sequence[RowPart], nodes: Collection[int] | None, steps: Collection[int] | None
) -> Records:
    return joined([rows for rows in _rows_by_part(parts, nodes, steps) if len(rows)])


def _rows_by_part(
    parts: Sequence[RowPart], nodes: Collection[int] | None, steps: Collection[int] | None
) -> Iterator[Records]:
    for part in parts:
        yield part.stats(nodes, steps)


def _all_between(parts: Sequence[RowPart], nodes: Collection[int] | None) -> Records:
    return join_between([part.between_of(nodes) for part in parts])

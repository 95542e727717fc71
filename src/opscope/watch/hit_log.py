"""Hits as they are written to the run directory, one line each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opscope.judge.hits import Hit
from opscope.messages import say_once
from opscope.rundir import layout
from opscope.rundir.jsonlines import JsonLines
from opscope.rundir.stat_files import stat_files
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, VALID, joined

_STEPS_BACK = 50
_BYTES_BACK = 64 << 20


class HitLog:
    """Appends hits to `hits.jsonl` of a rank, which is made with the first."""

    def __init__(self, run: Path | None, limit: int = 128 << 20) -> None:
        self.count = 0
        self.watchpoints: set[int] = set()
        """Those that were hit."""
        self.directory: Path | None = None
        """That of the rank, once it is known."""
        self._run = run
        self._limit = limit
        self._lines: JsonLines | None = None

    def open(self, rank: int) -> None:
        """Write to the directory of this rank, now that the rank is known."""
        if self._run is not None:
            self.directory = layout.rank_directory(self._run, rank)

    def add(self, hit: Hit) -> None:
        """Write a hit."""
        self.count += 1
        self.watchpoints.add(hit.watchpoint.id)
        if self.directory is None:
            return
        try:
            if self._lines is None:
                self._lines = JsonLines(self.directory / layout.HITS, self._limit)
            self._lines.append(hit.to_json())
        except OSError as error:
            self.directory = None
            say_once(f"cannot write hits: {error.strerror or error}; they are only printed")

    def earlier(self, step: int) -> NDArray[np.void]:
        """The rows of the steps before, as far as they are at hand."""
        if self.directory is None:
            return np.empty(0, ROW_DTYPE)
        parts: list[NDArray[np.void]] = []
        size = 0
        for file in reversed(stat_files(self.directory / layout.STATS)):
            try:
                data = file.rows.read_bytes()
            except OSError:
                break
            rows = np.frombuffer(data[: len(data) // ROW_BYTES * ROW_BYTES], ROW_DTYPE)
            rows = rows[rows["valid"] == VALID]
            parts.insert(0, rows[(rows["step"] < step) & (rows["step"] >= step - _STEPS_BACK)])
            size += len(data)
            if size > _BYTES_BACK or (len(rows) and rows["step"][0] < step - _STEPS_BACK):
                break
        return joined(parts)

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

"""The extra statistics of a rank: which it has, and their numbers."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.messages import say_once
from opscope.read.checked import DamagedError, Fields
from opscope.regular import open_regular, why
from opscope.rundir.extra_files import HEAD_FIELDS, STATISTICS, number_files, record_type
from opscope.rundir.jsonlines import read_object
from opscope.stats.record import INPUT

Records = NDArray[np.void]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST = 64
_AT_A_TIME = 1 << 16


class RecordPlace(NamedTuple):
    """The value that numbers are of, among those of a rank."""

    step: int
    call: int
    is_input: bool
    slot: int


class _Known(NamedTuple):
    meanings: dict[str, str]
    sizes: dict[Path, int]
    """The number of bytes of each file that are looked at."""


class ExtraStats:
    """All that is in `directory` as it was at the last `refresh`; any thread may ask."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._known: _Known | None = None

    @property
    def meanings(self) -> Mapping[str, str]:
        """The meaning of each statistic there is, by its name."""
        return self._now.meanings

    def refresh(self) -> None:
        """Take in what has been written since."""
        with self._lock:
            self._known = None

    def parts(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """Records in the order they were written, of some nodes and steps only if given."""
        known = self._now
        kind = record_type(list(known.meanings))
        for path, size in known.sizes.items():
            for records in _read(path, size // kind.itemsize, kind):
                wanted = np.ones(len(records), bool)
                for name, chosen in (("node", nodes), ("step", steps)):
                    if chosen is not None:
                        wanted &= np.isin(records[name], np.fromiter(chosen, np.int64))
                yield records[wanted]

    def by_value(
        self, nodes: Collection[int], steps: Collection[int] | None = None
    ) -> dict[RecordPlace, dict[str, float]]:
        """The numbers of the values of some nodes."""
        names = list(self.meanings)
        return {
            place_of(record): {name: float(record[name]) for name in names}
            for records in (self.parts(nodes, steps) if names else ())
            for record in records
        }

    @property
    def _now(self) -> _Known:
        with self._lock:
            if self._known is None:
                self._known = self._look()
            return self._known

    def _look(self) -> _Known:
        """A rank without them has no such folder, which is all that it costs."""
        if self._directory is None or not (self._directory / STATISTICS).exists():
            return _Known({}, {})
        meanings = _meanings(self._directory / STATISTICS)
        files = number_files(self._directory) if meanings else ()
        return _Known(meanings, {path: _size(path) for path in files})


def place_of(record: Any) -> RecordPlace:
    """Tell which value a record is of, be it one of rows or of extra statistics."""
    return RecordPlace(
        int(record["step"]), int(record["call"]), record["io"] == INPUT, int(record["slot"])
    )


def _meanings(path: Path) -> dict[str, str]:
    """Names that can be those of statistics, each with what it is."""
    try:
        given = Fields(read_object(path) or {}, str(path)).objects("statistics", _MOST)
        found = {each.text("name"): each.text("meaning") for each in given}
        bad = [n for n in found if not _NAME.fullmatch(n) or n in HEAD_FIELDS]
        if bad or len(found) < len(given):
            raise DamagedError(f'{path}: "statistics" has names that cannot be')
    except DamagedError as error:
        say_once(f"{error}; extra statistics are left out")
        return {}
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it has been dropped since
        return 0


def _read(path: Path, count: int, kind: np.dtype[np.void]) -> Iterator[Records]:
    """The first records of a file, some at a time; what was dropped since has none."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        say_once(f"{path} {why(error)}; left out")
        return
    try:
        for start in range(0, count, _AT_A_TIME):
            most = min(_AT_A_TIME, count - start) * kind.itemsize
            data = os.pread(descriptor, most, start * kind.itemsize)
            yield np.frombuffer(data, kind, len(data) // kind.itemsize)
    finally:
        os.close(descriptor)

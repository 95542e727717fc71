"""`statistic.csv`, read back as records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from opscope.read.csv_lines import count_in, read_csv
from opscope.stats.record import FLOAT, INT, UINT

_NUMBERS = {
    "Max Value": "max",
    "Min Value": "min",
    "Avg Value": "mean",
    "L2Norm Value": "l2",
    "Count": "count",
    "Negative Zero Count": "negative",
    "Positive Zero Count": "positive",
    "Zero Count": "zero",
    "NaN Count": "nan",
    "Negative Inf Count": "neginf",
    "Positive Inf Count": "posinf",
}
_COUNTS = ("count", "negative", "positive", "zero", "nan", "neginf", "posinf")
_MANY = 1 << 63
_FIXED = ("Op Type", "Op Name", "Task ID", "IO", "Slot", "Data Type", "Shape")


class StatisticRow(NamedTuple):
    """One line: the value it is about and the numbers it has."""

    op_type: str
    name: str
    task: int
    io: str
    slot: int
    dtype: str
    shape: tuple[int, ...]
    numbers: dict[str, float]


class Statistic(NamedTuple):
    """The lines of a file, and which numbers they have."""

    rows: list[StatisticRow]
    columns: frozenset[str]
    damaged: int = 0
    """The number of lines that could not be read."""
    trouble: str = ""
    """The reason why the whole file could not be read, if it could not."""


def read_statistic(path: Path) -> Statistic | None:
    """The rows of a file; None if there is none."""
    read = read_csv(path)
    if read is None:
        return None
    lines, damaged, trouble = read
    if trouble or not lines or not set(_FIXED) <= set(lines[0]):
        return Statistic([], frozenset(), max(1, len(lines) + damaged), trouble)
    header = {title: place for place, title in enumerate(lines[0])}
    places = [header[title] for title in _FIXED]
    numbers = [(name, header[title]) for title, name in _NUMBERS.items() if title in header]
    found = [_row(line, places, numbers) for line in lines[1:]]
    rows = [row for row in found if row is not None]
    columns = frozenset(name for name, _ in numbers)
    return Statistic(rows, columns, damaged + len(lines) - 1 - len(rows))


def _row(line: list[str], places: list[int], numbers: list[tuple[str, int]]) -> StatisticRow | None:
    """One line; None if it is damaged, as the last one may be after a crash."""
    try:
        op_type, name, task, io, slot, dtype, shape = (line[place] for place in places)
        sizes = tuple(int(size) for size in shape.strip("[]").split(",") if size.strip())
        found = {
            name: _number(name, line[place])
            for name, place in numbers
            if line[place] or name not in _COUNTS
        }
        call, place = count_in(task, 1 << 32), count_in(slot, 1 << 32)
        if call is None or place is None or not _is_shape(sizes):
            return None
        return StatisticRow(op_type, name, call, io, place, dtype, sizes, found)
    except (IndexError, ValueError, OverflowError):
        return None


def _is_shape(sizes: tuple[int, ...]) -> bool:
    return all(size >= 0 for size in sizes) and math.prod(sizes) < _MANY


def _number(name: str, text: str) -> float:
    """A number of a row; what counts is a whole number that a record has room for."""
    try:
        value = int(text)
    except ValueError:
        if name in _COUNTS:
            raise
        return float(text) if text else math.nan
    if name in _COUNTS and not 0 <= value < _MANY:
        raise ValueError(f"{value} is no count")
    return value if -_MANY <= value < 2 * _MANY else float(value)


def kind_of(low: float, high: float) -> int:
    """Return how a record has these ends."""
    if not (isinstance(low, int) and isinstance(high, int)) or (low < 0 and high >= _MANY):
        return FLOAT
    return INT if high < 1 << 63 else UINT

"""`statistic.csv`, read back as records."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import NamedTuple

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
    """How many lines could not be read."""


def read_statistic(path: Path) -> Statistic | None:
    """The rows of a file; None if there is none."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        return None
    if not lines or not set(_FIXED) <= set(lines[0]):
        return Statistic([], frozenset(), max(1, len(lines)))
    header = {title: place for place, title in enumerate(lines[0])}
    places = [header[title] for title in _FIXED]
    numbers = [(name, header[title]) for title, name in _NUMBERS.items() if title in header]
    found = [_row(line, places, numbers) for line in lines[1:]]
    rows = [row for row in found if row is not None]
    columns = frozenset(name for name, _ in numbers)
    return Statistic(rows, columns, len(lines) - 1 - len(rows))


def _row(line: list[str], places: list[int], numbers: list[tuple[str, int]]) -> StatisticRow | None:
    """One line; None if it is damaged, as the last one may be after a crash."""
    try:
        op_type, name, task, io, slot, dtype, shape = (line[place] for place in places)
        sizes = tuple(int(size) for size in shape.strip("[]").split(",") if size.strip())
        found = {name: _number(line[place]) for name, place in numbers}
        return StatisticRow(op_type, name, int(task), io, int(slot), dtype, sizes, found)
    except (IndexError, ValueError):
        return None


def _number(text: str) -> float:
    if not text:
        return math.nan
    try:
        return int(text)
    except ValueError:
        return float(text)


def kind_of(low: float, high: float) -> int:
    """How a record has these ends."""
    if not (isinstance(low, int) and isinstance(high, int)):
        return FLOAT
    return INT if high < 1 << 63 else UINT

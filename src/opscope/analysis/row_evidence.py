"""Evidence from rows alone of elements in a range and of changes: some of it for certain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.analysis.scope import NOTHING_KEPT, Kept, KeptCount
from opscope.events import IO
from opscope.judge.evidence import (
    FurtherColumns,
    Indices,
    Lacking,
    Records,
    counts_range,
    ends_of,
    tolerance_of,
)
from opscope.judge.numbers import Change, Flags, Floats, NumberColumns
from opscope.judge.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.judge.table import KindOf
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import OUTPUT, ROW_DTYPE
from opscope.stats.two_tensors import Difference

StepNumbers = NDArray[np.int64]

_ROUNDING = 1e-9
"""Numbers of rows are this exact, relative to the mean of |x|, or better."""


class RowEvidence:
    """Keeps the rows of parameters from step to step; a run has no tensors.

    `kept` has what a training that still runs finds in values that it keeps.
    """

    def __init__(self, kind_of: KindOf, kept: Kept = NOTHING_KEPT) -> None:
        self._kind_of = kind_of
        self._kept = kept
        self._before: dict[tuple[int, str], np.void] = {}

    def columns(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str], rows: Indices
    ) -> FurtherColumns:
        """Return the further columns of some rows, as far as rows tell."""
        if watchpoint.condition.needs_change:
            return self._change(watchpoint, records, names)
        if not counts_range(watchpoint):
            return FurtherColumns()
        inside, known = in_range_by_rows(records, ends_of(watchpoint))
        for place in np.flatnonzero(~known) if self._kept.counts else ():
            count = self._kept.counts.get(_counted(records[place], ends_of(watchpoint)))
            if count is not None:
                inside[place], known[place] = count, True
        missing = np.where(known, CHECKED, NO_VALUES).astype(np.uint8)
        return FurtherColumns(inside, missing=missing)

    def lacking(self, watchpoint: Watchpoint, rows: Indices) -> Lacking | None:
        """A run has whole rows."""
        return None

    def _change(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str]
    ) -> FurtherColumns:
        keys = [(watchpoint.id, name) for name in names]
        there = np.array([key in self._before for key in keys], bool)
        before = np.zeros(len(records), ROW_DTYPE)
        for index, key in enumerate(keys):
            before[index] = self._before.get(key, records[index])
            self._before[key] = records[index].copy()
        missing = np.full(len(records), NO_VALUES, np.uint8)
        changed = surely_changed(records, before, watchpoint) & there
        if watchpoint.condition.abbr == "WNC":
            missing[changed] = CHECKED
        shapes = zip(self._shapes(records), self._shapes(before), strict=True)
        missing[np.array([now != then for now, then in shapes], bool)] = RESHAPED
        missing[~there] = NO_PREVIOUS
        steps = np.where(there, before["step"].astype(np.int64), -1)
        differences = [
            Difference(math.nan, math.nan, math.nan, int(any_), 0, 0, 0) for any_ in changed
        ]
        for place, found in self._compared(watchpoint, records, names, steps):
            differences[place], missing[place] = found, CHECKED
        return FurtherColumns(change=Change.of(differences), missing=missing, before=steps.tolist())

    def _compared(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str], before: StepNumbers
    ) -> Iterator[tuple[int, Difference]]:
        """Places of the parameters that a training has kept of two steps, and how they differ."""
        if not self._kept.changes:
            return
        tolerance = tolerance_of(watchpoint.params)
        for place in np.flatnonzero(before == records["step"].astype(np.int64) - 1).tolist():
            key = int(records[place]["step"]), names[place], tolerance
            if key in self._kept.changes:
                yield place, self._kept.changes[key]

    def _shapes(self, records: Records) -> list[tuple[int, ...] | None]:
        kinds = map(self._kind_of, records["shape"].tolist())
        return [None if kind is None else kind[1] for kind in kinds]


def _counted(record: np.void, ends: tuple[float, float]) -> KeptCount:
    step, call, slot = (int(record[name]) for name in ("step", "call", "slot"))
    return step, call, str(IO.OUTPUT if record["io"] == OUTPUT else IO.INPUT), slot, *ends


def surely_changed(now: Records, before: Records, watchpoint: Watchpoint) -> Flags:
    """Find where means or extremes are further apart than any change within the tolerances."""
    n, b = NumberColumns.of_records(now), NumberColumns.of_records(before)
    rtol, atol = watchpoint.params.get("rtol", 0.0), watchpoint.params.get("atol", 0.0)
    slack = _ROUNDING * (n.mean_abs + b.mean_abs)
    with np.errstate(invalid="ignore"):
        moved = np.abs(n.mean - b.mean) > atol + rtol * b.mean_abs + slack
        for end, was in ((n.max, b.max), (n.min, b.min)) if rtol < 1 else ():
            largest = np.maximum(np.abs(end), np.abs(was))
            # What was the largest may be another element now, of at most this size before.
            size = (largest + atol) / (1 - rtol)
            moved |= np.abs(end - was) > (atol + rtol * size) * (1 + _ROUNDING)
    finite = (n.bad == 0) & (b.bad == 0)
    other_bad = (n.nan != b.nan) | (n.posinf != b.posinf) | (n.neginf != b.neginf)
    changed: Flags = (moved & finite) | other_bad
    return changed


def in_range_by_rows(records: Records, ends: tuple[float, float]) -> tuple[Floats, Flags]:
    """Return how many elements are in a range, and where the rows tell.

    They do where all elements are on one side of each end, and for an end that is 0.
    """
    n = NumberColumns.of_records(records)
    always = np.ones(len(records), bool)
    numbers = n.count - n.nan
    low, high = ends
    below, knows_below = _beyond(n.min >= low, n.max < low, numbers)
    above, knows_above = _beyond(n.max <= high, n.min > high, numbers)
    if low == 0:
        below, knows_below = records["negative"].astype(np.float64), always
    if high == 0:
        above, knows_above = records["positive"].astype(np.float64), always
    known = (knows_below & knows_above) | (numbers == 0)
    inside = np.where(numbers == 0, 0.0, numbers - below - above)
    return np.maximum(inside, 0.0), known


def _beyond(none: Flags, all_: Flags, numbers: Floats) -> tuple[Floats, Flags]:
    return np.where(all_, numbers, 0.0), none | all_

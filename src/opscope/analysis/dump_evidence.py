"""Evidence from the tensors of a dump, each read once for all watchpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from opscope.analysis.row_evidence import in_range_by_rows
from opscope.errors import OpscopeError
from opscope.judge.evidence import (
    FurtherColumns,
    Indices,
    Lacking,
    Records,
    counts_range,
    ends_of,
    tolerance_of,
)
from opscope.judge.expressions import NEEDS, parse_expression
from opscope.judge.numbers import Change, Flags, Floats
from opscope.judge.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.judge.watchpoint import Watchpoint
from opscope.read.dump import HAS_INF, DumpValues
from opscope.read.measure import AllcloseTolerance, Range, compare, count_in_range, measure
from opscope.read.stored import Array, open_array, size_of
from opscope.stats.native_cpu import load
from opscope.stats.record import ROW_BYTES, VALID
from opscope.stats.two_tensors import Difference

_MAX_THREADS = 16
_LOOKED_AT = 64
_WORTH_A_THREAD = 1 << 18
"""Reading so many bytes takes native code as long as Python takes for a file."""
_CHAIN = 16
"""Values of one parameter that are compared one after the other by one thread."""
_NEEDS = {
    "zero_percentage": ("zero",),
    "max": ("max",),
    "min": ("min",),
    "max_min": ("max", "min"),
    "mean": ("mean", HAS_INF),
    "abs_mean": ("mean_abs",),
    "range_percentage": ("min", "max", "nan", "negative", "positive"),
    "derivative": ("mean", "l2"),
}
"""The columns a row must have for a threshold to be checked."""
_UNKNOWN = Difference(np.nan, np.nan, np.nan, 0, 0, 0, 0)


def chains_of(values: DumpValues, found: Indices) -> dict[int, int]:
    """Return by the place of each weight that of the same one in the step dumped before, or -1."""
    records = values.records[found]
    order = np.lexsort((records["step"], records["node"]))
    found = found[order]
    nodes = values.records["node"][found]
    chains = {int(found[0]): -1} if len(found) else {}
    for place, (one, next_) in enumerate(pairwise(found.tolist())):
        chains[next_] = one if nodes[place] == nodes[place + 1] else -1
    return chains


class DumpEvidence:
    """Reads the tensors that watchpoints need, and keeps their numbers."""

    def __init__(
        self,
        values: DumpValues,
        watchpoints: Sequence[Watchpoint],
        chosen: Mapping[int, Indices],
        chains: Mapping[int, int],
    ) -> None:
        self._values = values
        self._chains = chains
        self.begin = 0
        """The place among all values at which the step that is checked begins."""
        self.problems: list[str] = []
        count = len(values.records)
        self.is_whole: Flags = np.zeros(count, bool)
        self._wanted: Flags = np.zeros(count, bool)
        self._compared: Flags = np.zeros(count, bool)
        self._inside: dict[Range, Floats] = {}
        self._differences: dict[AllcloseTolerance, dict[int, Difference]] = {}
        self._missing = np.full(count, NO_VALUES, np.uint8)
        for watchpoint in watchpoints:
            if watchpoint.condition.needs_change:
                self._compared[chosen[watchpoint.id]] = True
                if watchpoint.condition.abbr == "WNC":
                    self._differences[tolerance_of(watchpoint.params)] = {}
            self._wanted[chosen[watchpoint.id]] = True
            if counts_range(watchpoint):
                self._inside[ends_of(watchpoint)] = np.full(count, np.nan)

        if self._compared.any() and not self._differences:
            self._differences[0.0, 0.0, False] = {}

    def read(self, progress: Callable[[int, int], None]) -> None:
        """Read everything that is needed, on as many cores as there are."""
        tasks = self._tasks()
        if not tasks:
            return
        load()
        total = sum(map(len, tasks))
        done = 0
        workers = min(_cores(), len(tasks), _MAX_THREADS) if self._is_large(tasks) else 1
        if workers == 1:
            for task in tasks:
                self._run(task)
                done += len(task)
                progress(done, total)
            return
        with ThreadPoolExecutor(workers) as pool:
            for count in pool.map(self._run, tasks):
                done += count
                progress(done, total)

    def _is_large(self, tasks: Sequence[Sequence[int]]) -> bool:
        """Tell whether the native code has so much to do that Python need not be waited for."""
        some = tasks[:: max(1, len(tasks) // _LOOKED_AT)]
        stored = [self._values.stored[task[0]] for task in some]
        sizes = [size_of(each) for each in stored if each is not None]
        return sum(sizes) >= _WORTH_A_THREAD * len(sizes)

    def _tasks(self) -> list[list[int]]:
        """Values for one thread: those of a parameter in the order of its steps."""
        stored = self._values.stored
        compared = [i for i in np.flatnonzero(self._compared).tolist() if stored[i] is not None]
        rest = self._wanted & ~self._compared
        singles = [i for i in np.flatnonzero(rest).tolist() if stored[i] is not None]
        step = max(1, min(_CHAIN, len(singles) // 64))
        tasks = [singles[i : i + step] for i in range(0, len(singles), step)]
        compared.sort(key=lambda i: (int(self._values.records["node"][i]), i))
        chain: list[int] = []
        for index in compared:
            if chain and (self._chains[index] != chain[-1] or len(chain) >= _CHAIN):
                tasks.append(chain)
                chain = []
            chain.append(index)
        return [*tasks, chain] if chain else tasks

    def _run(self, task: Sequence[int]) -> int:
        last: tuple[int, Array] | None = None
        for index in task:
            last = self._look_at(index, last)
        return len(task)

    def _look_at(self, index: int, last: tuple[int, Array] | None) -> tuple[int, Array] | None:
        """Measure a value, and compare it with the one before, which may be open already."""
        try:
            array = self._open(index)
            self._measure(index, array)
            if self._compared[index]:
                self._compare(index, array, last)
            return index, array
        except OpscopeError as error:
            self.problems.append(str(error))
            return None

    def _open(self, index: int) -> Array:
        stored = self._values.stored[index]
        assert stored is not None
        return open_array(stored)

    def _measure(self, index: int, array: Array) -> None:
        records = self._values.records
        address = records.ctypes.data + index * ROW_BYTES
        ranges = iter(self._inside.items())
        first = next(ranges, None)
        inside = measure(array, address, first[0] if first else None)
        if first:
            first[1][index] = inside
        for ends, counts in ranges:
            counts[index] = count_in_range(array, ends)
        records["valid"][index] = VALID
        self.is_whole[index] = True

    def _compare(self, index: int, now: Array, last: tuple[int, Array] | None) -> None:
        previous = self._chains[index]
        if previous < 0:
            self._missing[index] = NO_PREVIOUS
            return
        if self._values.stored[previous] is None:
            return
        before = last[1] if last is not None and last[0] == previous else self._open(previous)
        if before.shape != now.shape:
            self._missing[index] = RESHAPED
            return
        for tolerance, found in self._differences.items():
            found[index] = compare(now, before, tolerance)
        self._missing[index] = CHECKED

    # ------------------------------------------------------------------ what came of it

    def columns(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str], rows: Indices
    ) -> FurtherColumns:
        """Return the further columns of some values of a step."""
        chosen: Indices = rows + self.begin
        if watchpoint.condition.needs_change:
            return self._change(watchpoint, chosen)
        if not counts_range(watchpoint):
            return FurtherColumns()
        ends = ends_of(watchpoint)
        by_rows, known = in_range_by_rows(records, ends)
        whole = self.is_whole[chosen]
        missing = np.where(whole | known, CHECKED, NO_VALUES).astype(np.uint8)
        return FurtherColumns(np.where(whole, self._inside[ends][chosen], by_rows), missing=missing)

    def lacking(self, watchpoint: Watchpoint, rows: Indices) -> Lacking | None:
        """Return which numbers are missing, and in which rows."""
        condition, params = watchpoint.condition, watchpoint.params
        if condition.needs_change:
            return None
        needed = {"nan", "posinf", "neginf"}
        if condition.expression:
            asked = parse_expression(condition.expression).names
            needed = {n for name in asked for n in NEEDS.get(name, (name,))}
        elif not condition.nonfinite:
            thresholds = (p.name for p in condition.thresholds if p.name in params)
            needed = {n for name in thresholds for n in _NEEDS.get(name.rpartition("_")[0], ())}
        names = sorted(needed - self._values.known)
        return Lacking(names, ~self.is_whole[rows + self.begin]) if names else None

    def _change(self, watchpoint: Watchpoint, chosen: Indices) -> FurtherColumns:
        places = chosen.tolist()
        previous = [self._chains[index] for index in places]
        missing = self._missing[chosen].copy()
        missing[np.array(previous) < 0] = NO_PREVIOUS
        found = self._difference_of(watchpoint)
        steps = self._values.records["step"]
        return FurtherColumns(
            change=Change.of([found.get(index, _UNKNOWN) for index in places]),
            missing=missing,
            before=[int(steps[index]) if index >= 0 else -1 for index in previous],
        )

    def _difference_of(self, watchpoint: Watchpoint) -> dict[int, Difference]:
        """By value: how far it is from before; only WNC cares with which tolerance."""
        if watchpoint.condition.abbr == "WNC":
            return self._differences[tolerance_of(watchpoint.params)]
        return next(iter(self._differences.values()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Watchpoints on a dump: on its tensors, each read once for all of them, or on its statistics."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from opscope.analysis.check_findings import Findings, Scope
from opscope.analysis.check_select import Selector
from opscope.analysis.check_values import (
    Batch,
    Flags,
    Floats,
    Indices,
    check_values,
    counts_range,
    ends_of,
    in_range_by_rows,
)
from opscope.dump.format.subject import PARAMETER
from opscope.errors import OpscopeError
from opscope.events import DATA_GRAPH, EVAL_GRAPH, SETUP_GRAPH, TRAINING_GRAPH, Phase
from opscope.read.dump import DumpRank, DumpValues
from opscope.read.measure import Range, Tolerance, compare, count_in_range, measure
from opscope.read.stored import Array, open_array, size_of
from opscope.stats.native_cpu import load
from opscope.stats.record import ROW_BYTES, VALID
from opscope.stats.two_tensors import Difference
from opscope.watch.catalogue import TRAINING, WEIGHT
from opscope.watch.numbers import Change
from opscope.watch.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.watch.watchpoint import Watchpoint

_PHASES = {
    str(Phase.SETUP): SETUP_GRAPH,
    str(Phase.DATA): DATA_GRAPH,
    str(Phase.EVAL): EVAL_GRAPH,
}
_NOT_HERE = {
    "LN": "a dump has no losses",
    "LS": "a dump has no losses",
    "OO": "a dump does not say where inputs come from; check the run, or TO",
}
_ONLY_LIVE = "only a training that runs can be checked for it"
_NO_FIRST = "the first step is not among those that are checked"
_BUFFERS = "a dump does not tell buffers from parameters: both are checked as weights"
_LEARNS = re.compile("b?float|complex")
_NO_PARAMETERS = "the dump has no parameters (input_output 1, or no operator that uses one)"
NOTHING = "it selects nothing that was dumped"
_MAX_THREADS = 16
_LOOKED_AT = 64
_WORTH_A_THREAD = 1 << 18
"""Reading so many bytes takes native code as long as Python takes for a file."""
_CHAIN = 16
"""Values of one parameter that are compared one after the other by one thread."""


def check_dump_rank(
    rank: DumpRank,
    watchpoints: Sequence[Watchpoint],
    scope: Scope,
    findings: Findings,
    progress: Callable[[int, int], None],
) -> None:
    """Check one rank of a dump."""
    _DumpCheck(rank, watchpoints, scope, findings).check(progress)
    where = f"rank {rank.number}"
    findings.note(
        f"{where}: {text}" + (f" ({count})" if count > 1 else "")
        for text, count in rank.problems.items()
    )


class _DumpCheck:
    def __init__(
        self,
        rank: DumpRank,
        watchpoints: Sequence[Watchpoint],
        scope: Scope,
        findings: Findings,
    ) -> None:
        self.rank = rank
        self.scope = scope
        self.findings = findings
        graphs = {TRAINING_GRAPH, *(_PHASES[p] for p in scope.include if p in _PHASES)}
        self.watchpoints = [w for w in watchpoints if self._can_be_checked(w)]
        compares = any(w.condition.needs_change for w in self.watchpoints)
        steps = None if compares else {s for s in rank.steps if scope.wants_step(s)}
        self.values = rank.values(steps, graphs)
        self.nodes = rank.nodes if steps is None else rank.nodes_so_far

    def _can_be_checked(self, watchpoint: Watchpoint) -> bool:
        condition = watchpoint.condition
        if condition.target != TRAINING and condition.abbr != "OO":
            return True
        self.findings.cannot(watchpoint, _NOT_HERE.get(condition.abbr, _ONLY_LIVE))
        return False

    def check(self, progress: Callable[[int, int], None]) -> None:
        records = self.values.records
        is_weight = self._are_weights()
        steps = np.unique(records["step"])
        wanted = np.isin(records["step"], [s for s in steps.tolist() if self.scope.wants_step(s)])
        chosen: dict[int, Indices] = {}
        for watchpoint in self.watchpoints:
            selector = Selector(watchpoint, self.nodes, self.scope.include, lambda node: False)
            if watchpoint.cls == WEIGHT:
                found = self._weights_of(selector, np.flatnonzero(wanted & is_weight))
                found = self._in_first_step(watchpoint, found)
            else:
                found = selector.outputs(records)
                found = found[wanted[found]]
            if not len(found):
                self.findings.cannot(watchpoint, self._why_nothing(watchpoint, is_weight))
            chosen[watchpoint.id] = found
        chains = _chains(self.values, np.flatnonzero(is_weight))
        reading = Reading(self.values, self.watchpoints, chosen, chains)
        reading.read(progress)
        self.findings.note(reading.problems)
        self._evaluate(reading, chosen, chains)

    def _are_weights(self) -> Flags:
        """Which values are parameters, as far as a dump tells: not those buffers that count."""
        parameters = [n for n, node in self.nodes.items() if node.op_type == PARAMETER]
        can_learn = np.array([_LEARNS.match(dtype) is not None for dtype in self.values.dtypes])
        are: Flags = np.isin(self.values.records["node"], parameters) & can_learn.astype(bool)
        if are.any() and any(w.cls == WEIGHT for w in self.watchpoints):
            self.findings.note([_BUFFERS])
        return are

    def _weights_of(self, selector: Selector, found: Indices) -> Indices:
        nodes = [self.nodes[number] for number in self.values.records["node"][found].tolist()]
        taken: Indices = found[np.array([selector.weight(n, n.name) for n in nodes], bool)]
        return taken

    def _in_first_step(self, watchpoint: Watchpoint, found: Indices) -> Indices:
        if not watchpoint.condition.first_step_only or not len(found):
            return found
        first: Indices = found[self.values.records["step"][found] == self.rank.first_step]
        return first

    def _why_nothing(self, watchpoint: Watchpoint, is_weight: Flags) -> str:
        if watchpoint.cls == WEIGHT and not is_weight.any():
            return _NO_PARAMETERS
        first = self.rank.first_step
        has_first = first in self.rank.steps and self.scope.wants_step(first)
        return _NO_FIRST if watchpoint.condition.first_step_only and not has_first else NOTHING

    def _evaluate(
        self, reading: Reading, chosen: dict[int, Indices], chains: dict[int, int]
    ) -> None:
        records = self.values.records
        steps = records["step"].astype(np.int64)
        before = np.full(len(records), -1, np.int64)
        for index, previous in chains.items():
            before[index] = steps[previous] if previous >= 0 else -1
        names = [self.nodes[number].name for number in records["node"].tolist()]
        is_whole = reading.is_whole
        batch = Batch(
            self.scope.rank, records, self.nodes, None, self.values.known, is_whole, before
        )
        weights = Batch(
            self.scope.rank, records, self.nodes, names, self.values.known, is_whole, before
        )
        for watchpoint in self.watchpoints:
            found = chosen[watchpoint.id]
            if len(found):
                more = reading.columns(watchpoint, found)
                of = weights if watchpoint.cls == WEIGHT else batch
                check_values(watchpoint, of, found, self.findings, more)


def _chains(values: DumpValues, found: Indices) -> dict[int, int]:
    """By the place of each weight: that of the same one in the step dumped before, or -1."""
    records = values.records[found]
    order = np.lexsort((records["step"], records["node"]))
    found = found[order]
    nodes = values.records["node"][found]
    chains = {int(found[0]): -1} if len(found) else {}
    for place, (one, next_) in enumerate(pairwise(found.tolist())):
        chains[next_] = one if nodes[place] == nodes[place + 1] else -1
    return chains


class Reading:
    """Reads the tensors that watchpoints need, and keeps their numbers."""

    def __init__(
        self,
        values: DumpValues,
        watchpoints: Sequence[Watchpoint],
        chosen: dict[int, Indices],
        chains: dict[int, int],
    ) -> None:
        self._values = values
        self._chains = chains
        self.problems: list[str] = []
        count = len(values.records)
        self.is_whole: Flags = np.zeros(count, bool)
        self._wanted: Flags = np.zeros(count, bool)
        self._compared: Flags = np.zeros(count, bool)
        self._inside: dict[Range, Floats] = {}
        self._differences: dict[Tolerance, dict[int, Difference]] = {}
        self._missing = np.full(count, NO_VALUES, np.uint8)
        for watchpoint in watchpoints:
            if watchpoint.condition.needs_change:
                self._compared[chosen[watchpoint.id]] = True
                if watchpoint.condition.abbr == "WNC":
                    self._differences[_tolerance(watchpoint)] = {}
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
        """Whether the native code has so much to do that Python need not be waited for."""
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

    def _difference_of(self, watchpoint: Watchpoint) -> dict[int, Difference]:
        """By value: how far it is from before; only WNC cares with which tolerance."""
        if watchpoint.condition.abbr == "WNC":
            return self._differences[_tolerance(watchpoint)]
        return next(iter(self._differences.values()))

    def columns(self, watchpoint: Watchpoint, chosen: Indices) -> dict[str, object]:
        """The columns beside the row that a watchpoint needs."""
        if watchpoint.condition.needs_change:
            missing = self._missing[chosen].copy()
            first = np.array([self._chains[i] < 0 for i in chosen.tolist()], bool)
            missing[first] = NO_PREVIOUS
            found = self._difference_of(watchpoint)
            differences = [found.get(i, _UNKNOWN) for i in chosen.tolist()]
            return {"change": Change.of(differences), "missing": missing}
        if counts_range(watchpoint):
            ends = ends_of(watchpoint)
            by_rows, known = in_range_by_rows(self._values.records[chosen], ends)
            inside = self._inside[ends][chosen]
            whole = self.is_whole[chosen]
            missing = np.where(whole | known, CHECKED, NO_VALUES).astype(np.uint8)
            return {"in_range": np.where(whole, inside, by_rows), "missing": missing}
        return {}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_UNKNOWN = Difference(np.nan, np.nan, np.nan, 0, 0, 0, 0)


def _tolerance(watchpoint: Watchpoint) -> Tolerance:
    params = watchpoint.params
    return params["rtol"], params["atol"], bool(params["equal_nan"])

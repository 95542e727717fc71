"""Watchpoints on a run: on its statistics, a part at a time, and on what it noted of its steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opscope.analysis.check_findings import Findings, Scope
from opscope.analysis.check_overflow import Overflows
from opscope.analysis.check_select import Selector
from opscope.analysis.check_training import check_losses, check_unchanged, take_recorded
from opscope.analysis.check_values import (
    Batch,
    Flags,
    Indices,
    Records,
    check_values,
    counts_range,
    ends_of,
    in_range_by_rows,
    of_known_nodes,
    take,
)
from opscope.analysis.check_weights import ParameterInputs, Weights, change_by_rows
from opscope.events import Node
from opscope.read.hits import read_hits
from opscope.read.run import Rank, Run
from opscope.read.state import KILLED, RUNNING
from opscope.watch.catalogue import TRAINING, WEIGHT
from opscope.watch.outcome import CHECKED, NO_VALUES
from opscope.watch.watchpoint import Watchpoint

_IGNORE = re.compile(r"#.*opscope: ignore")
_NO_FIRST = "step 0 is not among those that are checked"
NOTHING = "it selects nothing that was recorded"


def check_run_rank(
    run: Run,
    rank: Rank,
    watchpoints: Sequence[Watchpoint],
    scope: Scope,
    findings: Findings,
    progress: Callable[[int, int], None],
) -> None:
    """Check one rank of a run."""
    findings.note(_what_is_missing(rank))
    _RunCheck(run, rank, watchpoints, scope, findings).check(progress)


class _RunCheck:
    def __init__(
        self,
        run: Run,
        rank: Rank,
        watchpoints: Sequence[Watchpoint],
        scope: Scope,
        findings: Findings,
    ) -> None:
        self.rank = rank
        self.scope = scope
        self.findings = findings
        self.code = run.code
        self.nodes = rank.nodes
        self.of_training = [w for w in watchpoints if w.condition.target == TRAINING]
        self.overflows = [w for w in watchpoints if w.condition.abbr == "OO"]
        rest = [w for w in watchpoints if w not in self.of_training and w not in self.overflows]
        self.of_weights = [w for w in rest if w.cls == WEIGHT]
        self.of_values = [w for w in rest if w.cls != WEIGHT]
        self.selectors = {
            w.id: Selector(w, self.nodes, scope.include, self._is_ignored) for w in watchpoints
        }
        self.seen = dict.fromkeys((w.id for w in rest), 0)

    def check(self, progress: Callable[[int, int], None]) -> None:
        inputs = ParameterInputs(self.nodes, self.rank.variants, self.scope.include)
        overflows = Overflows(self.overflows, self.scope, self.findings, self.selectors)
        total = max(1, self.rank.part_count)
        for done, records in enumerate(self._parts(), 1):
            inputs.take(records)
            wanted = records[self._wants(records)]
            overflows.take(wanted)
            self._check_values(wanted)
            progress(done, total)
        self._check_weights(inputs.weights())
        overflows.check(self.rank)
        for watchpoint in (*self.of_values, *self.of_weights):
            if not self.seen[watchpoint.id]:
                self.findings.cannot(watchpoint, NOTHING)

    def _parts(self) -> Iterator[Records]:
        """Rows of nodes that are known; a run that is being written may have more."""
        for records in self.rank.parts_of_stats():
            known = of_known_nodes(records, self.nodes)
            yield records if known.all() else records[known]

    def _wants(self, records: Records) -> Flags:
        steps = np.unique(records["step"])
        wanted = [step for step in steps.tolist() if self.scope.wants_step(step)]
        if len(wanted) == len(steps):
            return np.ones(len(records), bool)
        return np.isin(records["step"], wanted)

    def _check_values(self, records: Records) -> None:
        batch = Batch(self.scope.rank, records, self.nodes)
        for watchpoint in self.of_values:
            chosen = self.selectors[watchpoint.id].outputs(records)
            self.seen[watchpoint.id] += len(chosen)
            if len(chosen):
                more = _range_columns(watchpoint, records[chosen])
                check_values(watchpoint, batch, chosen, self.findings, more)

    def _check_weights(self, weights: Weights) -> None:
        records = weights.records
        before = weights.steps_before
        batch = Batch(
            self.scope.rank, records, self.nodes, parameters=weights.names, previous=before
        )
        shapes = [
            kind.shape if kind else None for kind in map(self.rank.types.get, records["shape"])
        ]
        wanted = self._wants(records) if len(records) else np.empty(0, bool)
        for watchpoint in self.of_weights:
            chosen = np.flatnonzero(wanted & self._selects(watchpoint, weights))
            self.seen[watchpoint.id] += len(chosen)
            if watchpoint.condition.first_step_only:
                chosen = self._in_first_step(watchpoint, records, chosen)
            if not len(chosen):
                continue
            more = _range_columns(watchpoint, records[chosen])
            if watchpoint.condition.needs_change:
                columns = change_by_rows(weights, watchpoint, shapes)
                more = {name: take(column, chosen) for name, column in columns.items()}
            check_values(watchpoint, batch, chosen, self.findings, more)
        self._check_training(weights)

    def _selects(self, watchpoint: Watchpoint, weights: Weights) -> Flags:
        selector = self.selectors[watchpoint.id]
        nodes = weights.records["node"].tolist()
        pairs = zip(nodes, weights.names, strict=True)
        return np.array([selector.weight(self.nodes[node], name) for node, name in pairs], bool)

    def _in_first_step(
        self,
        watchpoint: Watchpoint,
        records: Records,
        chosen: Indices,
    ) -> Indices:
        first: Indices = chosen[records["step"][chosen] == 0]
        if len(chosen) and not len(first):
            self.findings.cannot(watchpoint, _NO_FIRST)
        return first

    def _check_training(self, weights: Weights) -> None:
        recorded = read_hits(self.rank.path, self.nodes) if self.of_training else []
        for watchpoint in self.of_training:
            abbr = watchpoint.condition.abbr
            if abbr in ("LN", "LS"):
                check_losses(watchpoint, self.rank.steps, self.scope, self.findings, self._call_of)
            elif abbr == "PU":
                trained = {node.gradient_of for node in self.nodes.values() if node.gradient_of}
                check_unchanged(watchpoint, weights, trained, self.scope, self.findings, self.nodes)
            else:
                take_recorded(watchpoint, recorded, self.scope, self.findings)

    def _call_of(self, node: Node, step: int) -> int:
        rows = self.rank.stats({node.id}, {step})
        return int(rows["call"][-1]) if len(rows) else 0

    def _is_ignored(self, node: Node) -> bool:
        frame = node.stack.where
        code = self.code(frame) if frame is not None else None
        return code is not None and _IGNORE.search(code) is not None


def _range_columns(watchpoint: Watchpoint, records: Records) -> dict[str, object]:
    if not counts_range(watchpoint):
        return {}
    inside, known = in_range_by_rows(records, ends_of(watchpoint))
    missing = np.where(known, CHECKED, NO_VALUES).astype(np.uint8)
    return {"in_range": inside, "missing": missing}


def _what_is_missing(rank: Rank) -> Iterator[str]:
    state, end = rank.state, rank.end
    where = f"rank {rank.number}"
    if state.kind == RUNNING:
        yield f"{where} is still running"
    if state.kind == KILLED:
        yield f"{where} ended without saying so"
    if end.get("thinned_rows"):
        yield f"{where} has only some of its older steps: its budget was used up"
    if end.get("dropped_rows"):
        yield f"{where} dropped {end['dropped_rows']} of its oldest rows: its budget was used up"
    if state.incomplete:
        yield f"{where} stopped writing early: {state.incomplete}"

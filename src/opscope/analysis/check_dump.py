"""Watchpoints on a dump: on its tensors, or on its statistics where it has no tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

import numpy as np

from opscope.analysis.dump_evidence import DumpEvidence, chains_of
from opscope.analysis.scope import CheckedPart
from opscope.calls import Calls
from opscope.dump.format.names import safe
from opscope.events import DATA_GRAPH, EVAL_GRAPH, SETUP_GRAPH, TRAINING_GRAPH, Phase
from opscope.judge.condition import TRAINING, WEIGHT
from opscope.judge.evaluator import Evaluator, StepPart
from opscope.judge.evidence import Indices
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit
from opscope.judge.lasting import needed_steps
from opscope.judge.numbers import Flags
from opscope.judge.table import Table
from opscope.judge.watchpoint import Watchpoint
from opscope.names import PARAMETER
from opscope.read.dump import DumpRank

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
_ONLY_LIVE = "only a training that runs, or its run, can be checked for it"
_NO_FIRST = "the first step is not among those that are checked"
_BUFFERS = "a dump does not tell buffers from parameters: both are checked as weights"
_WHOLE_NUMBERS = "whole numbers are taken for counters: {} of them are not checked as weights"
_LEARNS = re.compile("b?float|complex")
_NO_PARAMETERS = "the dump has no parameters (input_output 1, or no operator that uses one)"
NOTHING = "it selects nothing that was dumped"


class DumpCheck:
    """Checks one rank of a dump."""

    def __init__(
        self,
        rank: DumpRank,
        watchpoints: Sequence[Watchpoint],
        scope: CheckedPart,
        findings: Findings,
    ) -> None:
        self.hits: list[Hit] = []
        self._rank = rank
        self._scope = scope
        self._findings = findings
        graphs = {TRAINING_GRAPH, *(_PHASES[p] for p in scope.include if p in _PHASES)}
        self._watchpoints = [w for w in watchpoints if self._can_be_checked(w)]
        self._stateful = any(
            w.condition.needs_change or needed_steps(w) > 1 for w in self._watchpoints
        )
        steps = None if self._stateful else {s for s in rank.steps if scope.wants_step(s)}
        self._values = rank.values(steps, graphs)
        self._nodes = rank.nodes if steps is None else rank.nodes_so_far
        self._is_weight = self._find_weights()
        learning = frozenset(self._values.records["node"][self._is_weight].tolist())
        self._table = Table(
            self._nodes.get,
            scope.include,
            is_ignored=lambda node: False,
            names_parameter=_is_safe_name,
            is_parameter=lambda node: node.id in learning,
        )
        self._table.watch(self._watchpoints)
        self._table.learn(max(self._nodes, default=-1) + 1)

    def check(self, progress: Callable[[int, int], None]) -> None:
        """Check the rank."""
        chosen = {w.id: self._chosen(w) for w in self._watchpoints}
        chains = chains_of(self._values, np.flatnonzero(self._is_weight))
        evidence = DumpEvidence(self._values, self._watchpoints, chosen, chains)
        evidence.read(progress)
        self._findings.note(evidence.problems)
        self._evaluate(evidence)
        where = f"rank {self._rank.number}"
        self._findings.note(
            f"{where}: {text}" + (f" ({count})" if count > 1 else "")
            for text, count in self._rank.problems.items()
        )

    def _evaluate(self, evidence: DumpEvidence) -> None:
        evaluator = Evaluator(
            self._table,
            evidence,
            self._nodes.__getitem__,
            self._rank.types.get,
            rank=lambda: self._scope.rank,
            findings=self._findings,
            first_step=self._rank.first_step,
            has_edges=False,
        )
        evaluator.watch(self._watchpoints)
        records = self._values.records
        edges = np.flatnonzero(np.diff(records["step"].astype(np.int64))) + 1
        bounds = [0, *edges.tolist(), len(records)] if len(records) else []
        for begin, end in pairwise(bounds):
            step = int(records["step"][begin])
            evidence.begin = begin
            self._findings.paused = not self._scope.wants_step(step)
            hits = evaluator.examine(StepPart(step, Calls(), records[begin:end]))
            evaluator.end_step()
            self.hits += () if self._findings.paused else hits
        self._findings.paused = False

    # ------------------------------------------------------------------ what is looked at

    def _can_be_checked(self, watchpoint: Watchpoint) -> bool:
        condition = watchpoint.condition
        if condition.target != TRAINING and condition.abbr != "OO":
            return True
        self._findings.cannot(watchpoint, _NOT_HERE.get(condition.abbr, _ONLY_LIVE))
        return False

    def _find_weights(self) -> Flags:
        """Find the values that are parameters, as far as a dump tells; some buffers count too."""
        parameters = [n for n, node in self._nodes.items() if node.op_type == PARAMETER]
        named = np.isin(self._values.records["node"], parameters)
        can_learn = np.array([_LEARNS.match(dtype) is not None for dtype in self._values.dtypes])
        are: Flags = named & can_learn.astype(bool)
        if any(w.cls == WEIGHT for w in self._watchpoints):
            counters = len(np.unique(self._values.records["node"][named & ~are]))
            self._findings.note([_BUFFERS] if are.any() else [])
            self._findings.note([_WHOLE_NUMBERS.format(counters)] if counters else [])
        return are

    def _chosen(self, watchpoint: Watchpoint) -> Indices:
        """The values that a watchpoint looks at; if there are none, it is said why."""
        records = self._values.records
        if watchpoint.cls == WEIGHT:
            rows, numbers = self._table.own_parameters(records)
            found = rows[self._table.weights(watchpoint, numbers)]
            if watchpoint.condition.first_step_only:
                found = found[records["step"][found] == self._rank.first_step]
        else:
            found = self._table.outputs(watchpoint, records)
        steps = np.unique(records["step"][found]).tolist()
        wanted = [step for step in steps if self._scope.wants_step(step)]
        if not wanted:
            self._findings.cannot(watchpoint, self._why_nothing(watchpoint))
        if not (watchpoint.condition.needs_change or needed_steps(watchpoint) > 1):
            found = found[np.isin(records["step"][found], wanted)]
        return found

    def _why_nothing(self, watchpoint: Watchpoint) -> str:
        if watchpoint.cls == WEIGHT and not self._is_weight.any():
            return _NO_PARAMETERS
        first = self._rank.first_step
        has_first = first in self._rank.steps and self._scope.wants_step(first)
        return _NO_FIRST if watchpoint.condition.first_step_only and not has_first else NOTHING


def _is_safe_name(pattern: str, name: str) -> bool:
    """Tell whether a pattern means a parameter of which only the name in a file is known."""
    return "." not in name and fnmatchcase(name, safe(pattern))

"""Watchpoints on what was recorded: which values hit, and what could not be checked, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from opscope.analysis.check_dump import check_dump_rank
from opscope.analysis.check_findings import Findings, Scope, Unchecked
from opscope.analysis.check_run import check_run_rank
from opscope.events import Phase
from opscope.read.dump import Dump
from opscope.read.run import Run
from opscope.watch.hits import Hit
from opscope.watch.lasting import lasting
from opscope.watch.watch_set import WatchSet

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

INCLUDED = (str(Phase.SETUP), str(Phase.DATA), str(Phase.EVAL))
"""Phases that are looked at only when asked for."""


@dataclass(frozen=True)
class Checked:
    """What a check found, in the order of steps, ranks and execution."""

    hits: list[Hit]
    unchecked: list[Unchecked] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the recording itself lacks."""
    values: int = 0
    """How often a value was looked at by a watchpoint."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "hits": [hit.to_json() for hit in self.hits],
            "unchecked": [each.to_json() for each in self.unchecked],
            "notes": self.notes,
            "values": self.values,
        }


def check(
    recorded: Run | Dump,
    watch: WatchSet,
    *,
    ranks: Collection[int] | None = None,
    steps: Callable[[int], bool] | None = None,
    include: Collection[str] = (),
    progress: Progress = lambda done, total: None,
) -> Checked:
    """Check watchpoints on a run or a dump; `steps` says which steps are wanted."""
    findings = Findings()
    chosen = [n for n in recorded.ranks if ranks is None or n in ranks]
    for place, number in enumerate(chosen):
        scope = Scope(number, steps or (lambda step: True), frozenset(include))

        def report(done: int, total: int, place: int = place) -> None:
            progress(place * total + done, len(chosen) * total)

        if isinstance(recorded, Run):
            check_run_rank(recorded, recorded.rank(number), watch.enabled, scope, findings, report)
        else:
            check_dump_rank(recorded.ranks[number], watch.enabled, scope, findings, report)
    seen = {number: _steps(recorded, number) for number in chosen}
    hits = sorted(lasting(findings.hits, seen), key=_order)
    if isinstance(recorded, Run):
        hits = [_in_its_pass(hit, recorded) for hit in hits]
    return Checked(hits, findings.unchecked, findings.notes, findings.values)


def _in_its_pass(hit: Hit, run: Run) -> Hit:
    """A hit that names the pass, where a step has several."""
    if hit.node is None:
        return hit
    return replace(hit, pass_number=run.rank(hit.rank).pass_of(hit.step, hit.call))


def _steps(recorded: Run | Dump, rank: int) -> list[int]:
    if isinstance(recorded, Run):
        return [step.step for step in recorded.rank(rank).steps]
    return recorded.ranks[rank].steps


def _order(hit: Hit) -> tuple[int, ...]:
    """Steps, ranks and execution; then nodes, slots and watchpoints as they are numbered."""
    node = hit.node.id if hit.node is not None else -1
    return hit.step, hit.rank, hit.call, node, hit.slot, hit.watchpoint.id

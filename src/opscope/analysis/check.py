"""Watchpoints on what was recorded: which values hit, and what could not be checked, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import Any

from opscope.analysis.check_dump import DumpCheck
from opscope.analysis.check_ranks import check_ranks
from opscope.analysis.check_run import RunCheck
from opscope.analysis.scope import NOTHING_KEPT, CheckedPart, Kept
from opscope.events import Phase
from opscope.judge.findings import Findings, Unchecked
from opscope.judge.hits import Hit
from opscope.judge.notes import Note
from opscope.judge.watch_set import WatchSet
from opscope.read.dump import Dump
from opscope.read.html import hits_table
from opscope.read.run import Run
from opscope.wording import counted

OnProgress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

INCLUDED = (str(Phase.SETUP), str(Phase.DATA), str(Phase.EVAL))
"""Phases that are looked at only when asked for."""


@dataclass(frozen=True)
class Checked:
    """The findings of a check, in the order of steps, ranks and execution."""

    hits: list[Hit]
    unchecked: list[Unchecked] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences on what the recording itself lacks."""
    values: int = 0
    """The number of times that a watchpoint checked a value."""
    harmless: list[Note] = field(default_factory=list)
    """NaN and Inf in batches that the script skipped, or that were masked: no hits."""

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        hits = [hit.to_json() for hit in self.hits]
        return f"<p>{escape(self.summary)}</p>" + (hits_table(hits) if hits else "")

    @property
    def summary(self) -> str:
        """The number of hits and checks, in words."""
        hits = counted(len(self.hits), "hit") if self.hits else "no hits"
        return f"{hits} in {counted(self.values, 'check')}"

    @property
    def unchecked_values(self) -> int:
        """The number of times that a watchpoint could not check a value."""
        return sum(each.count for each in self.unchecked)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "hits": [hit.to_json() for hit in self.hits],
            "unchecked": [each.to_json() for each in self.unchecked],
            "notes": self.notes,
            "values": self.values,
            "unchecked_values": self.unchecked_values,
            "harmless": [note.to_json() for note in self.harmless],
        }


def check(
    recorded: Run | Dump,
    watch: WatchSet,
    *,
    ranks: Collection[int] | None = None,
    steps: Callable[[int], bool] | None = None,
    include: Collection[str] = (),
    progress: OnProgress = lambda done, total: None,
    kept: Mapping[int, Kept] = MappingProxyType({}),
) -> Checked:
    """Check watchpoints on a run or a dump; `steps` says which steps are wanted.

    `kept` has, by rank, what was found in values that somebody keeps beside the recording.
    """
    findings = Findings()
    chosen = [n for n in recorded.ranks if ranks is None or n in ranks]
    wants_step = steps or (lambda step: True)
    phases = frozenset(include)
    scopes = [CheckedPart(n, wants_step, phases, kept.get(n, NOTHING_KEPT)) for n in chosen]
    harmless: list[Note] = []
    if isinstance(recorded, Run):
        hits = _check_run(recorded, watch, scopes, findings, progress, harmless)
    else:
        hits = _check_dump(recorded, watch, scopes, findings, progress)
    hits.sort(key=_order)
    return Checked(hits, findings.unchecked, findings.notes, findings.values, harmless)


def _check_run(
    run: Run,
    watch: WatchSet,
    scopes: Sequence[CheckedPart],
    findings: Findings,
    progress: OnProgress,
    harmless: list[Note],
) -> list[Hit]:
    checks = [RunCheck(run, run.rank(s.rank), watch.enabled, s, findings) for s in scopes]
    for place, each in enumerate(checks):
        each.check(_part_of(progress, place, len(checks)))
        harmless += each.notes
    hits = [hit for each in checks for hit in each.hits]
    return [*hits, *check_ranks(checks, scopes[0].wants_step, findings)] if checks else hits


def _check_dump(
    dump: Dump,
    watch: WatchSet,
    scopes: Sequence[CheckedPart],
    findings: Findings,
    progress: OnProgress,
) -> list[Hit]:
    hits: list[Hit] = []
    for place, scope in enumerate(scopes):
        each = DumpCheck(dump.ranks[scope.rank], watch.enabled, scope, findings)
        each.check(_part_of(progress, place, len(scopes)))
        hits += each.hits
    return hits


def _part_of(progress: OnProgress, place: int, count: int) -> OnProgress:
    """Progress of one of several ranks."""
    return lambda done, total: progress(place * total + done, count * total)


def _order(hit: Hit) -> tuple[int, ...]:
    """Steps, ranks and execution; then nodes, slots and watchpoints as they are numbered."""
    node = hit.node.id if hit.node is not None else -1
    return hit.step, hit.rank, hit.call, node, hit.slot, hit.watchpoint.id

"""Watchpoints on single values: the rows of a step, or of a part of it, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Node
from opscope.judge.condition import TRAINING, WEIGHT
from opscope.judge.evidence import Evidence, FurtherColumns, Lacking
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit
from opscope.judge.lasting import Lasting, needed_steps
from opscope.judge.numbers import Flags, NumberColumns
from opscope.judge.outcome import CHECKED, Outcome
from opscope.judge.overflows import StepPart
from opscope.judge.selection import base_type
from opscope.judge.table import Table
from opscope.judge.value_hits import ValuePlace, hits_of, io_of, outcome_of, reason_text
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import VALID, has_bad, joined, taken

Records = NDArray[np.void]
Indices = NDArray[np.intp]
_UNREADABLE = "its file cannot be read"


class ValueChecks:
    """Checks rows, and keeps what parameters looked like when a step first used them."""

    def __init__(
        self,
        table: Table,
        evidence: Evidence,
        node_of: Callable[[int], Node],
        findings: Findings | None = None,
        first_step: int = 0,
    ) -> None:
        """`findings` count what is checked, if anybody wants to know."""
        self._table = table
        self._evidence = evidence
        self._node_of = node_of
        self._findings = findings
        self._first_step = first_step
        self._uses: list[tuple[NDArray[np.int32], Records]] = []
        self._lasting = Lasting()
        self._watchpoints: Sequence[Watchpoint] = ()

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Check those of them that are on single values."""
        others = (w for w in watchpoints if w.condition.target != TRAINING)
        self._watchpoints = [w for w in others if w.condition.abbr != "OO"]

    def check(self, part: StepPart, rank: int) -> Iterator[Hit]:
        """Find the hits among some rows of a step."""
        records, seen = part.records, part.seen
        if not len(records):
            return
        bad = has_bad(records) if seen is None else seen.bad
        is_first = int(records["step"][0]) == self._first_step
        self._table.see(records, None if seen is None else seen.places)
        rows, numbers = self._first_uses(records, part.calls)
        for watchpoint in self._watchpoints:
            condition = watchpoint.condition
            if condition.first_step_only and not is_first:
                continue
            # Where nobody asks what was checked, only what may hit is looked at.
            cannot_hit = condition.nonfinite and not bad
            if cannot_hit and self._findings is None:
                continue
            if watchpoint.cls == WEIGHT:
                chosen = self._table.weights(watchpoint, numbers)
                found, of = rows[chosen], numbers[chosen]
            else:
                found, of = self._table.outputs(watchpoint, records), None
            if not (cannot_hit and self._are_whole(watchpoint, records, found)):
                yield from self._check(watchpoint, records, rank, found, of)

    def take_uses(self) -> tuple[NDArray[np.int32], Records] | None:
        """Return the parameters that the step used, and the rows of their first uses."""
        uses, self._uses = self._uses, []
        if not uses:
            return None
        if len(uses) == 1:
            return uses[0]
        return np.concatenate([n for n, _ in uses]), joined([r for _, r in uses])

    def _first_uses(self, records: Records, calls: Calls) -> tuple[Indices, NDArray[np.int32]]:
        """The rows of parameters that were not seen before in this step."""
        rows, numbers = self._table.parameter_rows(records, calls)
        for before, _ in self._uses:
            fresh = np.isin(numbers, before, invert=True)
            rows, numbers = rows[fresh], numbers[fresh]
        if len(numbers):
            self._uses.append((numbers, taken(records, rows)))
        return rows, numbers

    def _check(
        self,
        watchpoint: Watchpoint,
        records: Records,
        rank: int,
        rows: Indices,
        numbers: NDArray[np.int32] | None = None,
    ) -> Iterator[Hit]:
        if self._findings is not None:
            rows, numbers = self._readable(watchpoint, records, rank, rows, numbers)
        for group in self._groups(watchpoint, records, rows):
            chosen = records[group]
            names = [self._table.parameters[n] for n in numbers] if numbers is not None else ()
            more = self._evidence.columns(watchpoint, chosen, names, group)
            columns = NumberColumns.of_records(chosen, **more.given())
            outcome = outcome_of(watchpoint, columns, self._node_of(int(chosen["node"][0])))
            places = _Places(chosen, rank, names, self._node_of)
            if self._findings is not None:
                lacking = self._evidence.lacking(watchpoint, group)
                outcome = self._count(watchpoint, outcome, places, lacking)
            if not outcome.hits.any() and needed_steps(watchpoint) == 1:
                continue
            found = list(_with_gaps(hits_of(watchpoint, outcome, chosen, places), outcome, more))
            if needed_steps(watchpoint) == 1:
                yield from found
            else:
                step = int(chosen["step"][0])
                yield from self._lasting.enough(watchpoint, step, chosen, found)

    def _are_whole(self, watchpoint: Watchpoint, records: Records, rows: Indices) -> bool:
        """Tell whether rows certainly hold nothing bad; if so, count them as checked."""
        assert self._findings is not None
        whole = bool((records["valid"][rows] == VALID).all())
        if whole := whole and self._evidence.lacking(watchpoint, rows) is None:
            self._findings.count(watchpoint, len(rows))
        return whole

    def _readable(
        self,
        watchpoint: Watchpoint,
        records: Records,
        rank: int,
        rows: Indices,
        numbers: NDArray[np.int32] | None,
    ) -> tuple[Indices, NDArray[np.int32] | None]:
        """Those rows that have numbers; of the others it is noted that they have none."""
        valid = records["valid"][rows] == VALID
        if valid.all():
            return rows, numbers
        assert self._findings is not None
        names = [self._table.parameters[n] for n in numbers] if numbers is not None else ()
        places = _Places(records[rows], rank, names, self._node_of)
        _cannot(self._findings, watchpoint, places, ~valid, _UNREADABLE)
        return rows[valid], numbers[valid] if numbers is not None else None

    def _groups(self, watchpoint: Watchpoint, records: Records, rows: Indices) -> Iterator[Indices]:
        """Rows that one check applies to."""
        if not len(rows):
            return
        if watchpoint.condition.check_of is None:
            yield rows
            return
        by_type: dict[str, list[int]] = {}
        for row in rows.tolist():
            node = self._node_of(int(records["node"][row]))
            by_type.setdefault(base_type(node), []).append(row)
        for group in by_type.values():
            yield np.array(group, np.intp)

    def _count(
        self, watchpoint: Watchpoint, outcome: Outcome, places: _Places, lacking: Lacking | None
    ) -> Outcome:
        """Note what was checked and what was not; what is uncertain is no hit."""
        assert self._findings is not None
        hits, reasons = outcome.hits, outcome.reasons
        unsure = np.zeros(len(hits), bool)
        if lacking is not None:
            unsure = lacking.where
            if watchpoint.condition.nonfinite:
                unsure = unsure & ~hits  # what is known to be there is there
            hits = hits & ~unsure
            reasons = np.where(unsure, CHECKED, reasons).astype(np.uint8)
            names = ", ".join(lacking.names)
            reason = f"statistic.csv does not have {names}, and no tensor was saved"
            _cannot(self._findings, watchpoint, places, unsure, reason)
        for code in np.unique(reasons[reasons != CHECKED]).tolist() if reasons.any() else ():
            _cannot(self._findings, watchpoint, places, reasons == code, reason_text(code))
        checked = np.count_nonzero((reasons == CHECKED) & ~unsure)
        self._findings.count(watchpoint, int(checked))
        return Outcome(hits, reasons, outcome.actual)


def _cannot(
    findings: Findings, watchpoint: Watchpoint, places: _Places, where: Flags, reason: str
) -> None:
    found = np.flatnonzero(where)
    if len(found):
        place = places[int(found[0])]
        about = place.parameter or f"{place.node.name}:{place.slot}"
        findings.cannot(watchpoint, reason, len(found), f"{about} in step {place.step}")


def _with_gaps(hits: Iterator[Hit], outcome: Outcome, more: FurtherColumns) -> Iterator[Hit]:
    """Hits that say so where the value before is not of the step before."""
    if more.before is None:
        yield from hits
        return
    for index, hit in zip(np.flatnonzero(outcome.hits).tolist(), hits, strict=True):
        before = more.before[index]
        gap = f" (since step {before})" if 0 <= before != hit.step - 1 else ""
        yield replace(hit, seen=hit.seen + gap) if gap else hit


class _Places(Mapping[int, ValuePlace]):
    """The places of the rows of a check, made only for those that hit."""

    def __init__(
        self, records: Records, rank: int, names: Sequence[str], node_of: Callable[[int], Node]
    ) -> None:
        self._records = records
        self._rank = rank
        self._names = names
        self._node_of = node_of

    def __getitem__(self, index: int) -> ValuePlace:
        record = self._records[index]
        return ValuePlace(
            int(record["step"]),
            self._rank,
            self._node_of(int(record["node"])),
            io_of(record),
            int(record["slot"]),
            int(record["call"]),
            self._names[index] if self._names else "",
        )

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._records)))

    def __len__(self) -> int:
        return len(self._records)

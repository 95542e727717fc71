"""OO: where NaN and Inf began, step by step, and which of them have arrived."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import TRAINING_GRAPH, LossRecord, Node, Phase, StepRecord, UpdateFact
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit
from opscope.judge.notes import MASKED, SKIPPED, Note
from opscope.judge.origin import arrival, noticing
from opscope.judge.origin.birth import Birth, when
from opscope.judge.origin.operators import is_transparent
from opscope.judge.origin.soundness import Soundness
from opscope.judge.table import Table
from opscope.judge.value_hits import birth_hit
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.glance import Glance

Records = NDArray[np.void]
Readings = Sequence[tuple[Birth, int]]
"""Births with the calls by which the script came to know of what they made."""
_BIRTHS = 20
"""So many operators at fault are hits of a watchpoint in one step."""


class StepPart(NamedTuple):
    """Rows of a step that have not been looked at, and what is known of the step so far."""

    step: int
    calls: Calls
    records: Records
    losses: Sequence[LossRecord] = ()
    ended: StepRecord | None = None
    """There is a record once the step is over."""
    updates: Sequence[UpdateFact] = ()
    """Facts on what was not finite as optimizers were about to step."""
    noticed: Collection[int] = ()
    """Calls that ended in an exception, or whose outputs the script took as numbers."""
    seen: Glance | None = None
    """The records at a glance, if somebody has looked at just them."""


class Overflows:
    """Follows what is not finite, and makes hits of where it began."""

    def __init__(
        self, soundness: Soundness, table: Table, findings: Findings | None = None
    ) -> None:
        self.soundness = soundness
        self.on_skipped: Callable[[int], None] = lambda step: None
        """Called with a step whose update a gradient scaler withheld."""
        self.on_note: Callable[[Note], None] = lambda note: None
        """Called with what did no harm."""
        self._table = table
        self._findings = findings
        self._hits: dict[int, int] = {}
        """By watchpoint: how many hits it has in the step."""
        self._masked: set[int] = set()
        """Nodes whose masked values have been noted."""
        self._watchpoints: Sequence[Watchpoint] = ()

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Make hits of those of them that ask for what is not finite."""
        self._watchpoints = [w for w in watchpoints if w.condition.abbr == "OO"]

    def check(self, part: StepPart, rank: int) -> Iterator[Hit]:
        """Find the hits among more rows of the step."""
        born = self.soundness.follow(part.records, part.calls, part.seen)
        arrived = self._arrived(part, born)
        for watchpoint in self._watchpoints:
            if self._findings is not None:
                self._findings.count(watchpoint, len(part.records))
            births = arrived if watchpoint.arriving else born
            chosen = [birth for birth in births if self._is_selected(watchpoint, birth.node)]
            before = self._hits.get(watchpoint.id, 0)
            self._hits[watchpoint.id] = before + len(chosen)
            for birth in chosen[: max(0, _BIRTHS - before)]:
                yield birth_hit(watchpoint, birth, part.step, rank)
        if part.ended is not None:
            self._note_rest(part, rank)

    def end_step(self) -> None:
        """Forget the step, which is over."""
        self.soundness.begin()
        self._hits.clear()

    def counts(self, birth: Birth) -> bool:
        """Return whether nobody asked to leave the operator of a birth alone."""
        asked = self._watchpoints
        muted = bool(asked) and all(w.is_muted(birth.node) for w in asked)
        return self._is_of_interest(birth) and not muted

    # ------------------------------------------------------------------ what has arrived

    def _arrived(self, part: StepPart, born: Sequence[Birth]) -> list[Birth]:
        """The births that have led to something that counts since the last look.

        Of phases that a person has asked for besides training, everything counts.
        """
        soundness = self.soundness
        if not soundness.bad_slots and not soundness.births:
            return []
        ends = arrival.ends(part.calls, soundness.bad_slots, part.losses, part.updates, part.ended)
        if part.ended is not None and not part.ended.complete and noticing.trains(part.calls):
            ends += self._left_with(part)
        ends += [birth.call for birth in born if birth.node.graph != TRAINING_GRAPH]
        return [birth for birth in soundness.arrive(ends) if self._table.is_watched(birth.node)]

    def _left_with(self, part: StepPart) -> list[int]:
        """Return the calls that the script had noticed, or computed gradients of, as it left."""
        calls, found = part.calls, []
        for birth, call in self._readings(part):
            if noticing.is_last(calls, call):
                found.append(birth.call)
        losses = [loss.call for loss in part.losses if loss.call is not None]
        return found + [call for call in losses if noticing.is_last(calls, call)]

    def _readings(self, part: StepPart) -> Iterator[tuple[Birth, int]]:
        soundness = self.soundness
        waiting = [birth for birth in soundness.births if birth not in soundness.arrived]
        if not waiting:
            return iter(())
        records = soundness.records()
        return noticing.readings(part.calls, soundness.bad_slots, records, waiting, part.noticed)

    # ------------------------------------------------------------------ what has not

    def _note_rest(self, part: StepPart, rank: int) -> None:
        """Note what was skipped or masked, now that the step is over."""
        assert part.ended is not None
        soundness = self.soundness
        if part.ended.skipped:
            if not soundness.arrived:
                self.on_skipped(part.step)
            return
        waiting = [b for b in soundness.births if b not in soundness.arrived]
        # A view makes nothing: it shows memory that is yet to be written.
        waiting = [b for b in waiting if self._is_of_interest(b) and not is_transparent(b.node)]
        if not waiting:
            return
        calls, readings = part.calls, list(self._readings(part))
        left_out = self._skipped(part, waiting, readings)
        for birth, call in _batches(calls, sorted(left_out, key=when), readings):
            number = calls.pass_among_several(call)
            self.on_note(Note(SKIPPED, part.step, rank, birth, number))
        for birth in waiting:
            if birth in left_out or birth.node.id in self._masked or soundness.arrived:
                continue
            self._masked.add(birth.node.id)
            number = calls.pass_among_several(birth.call)
            self.on_note(Note(MASKED, part.step, rank, birth, number))

    def _skipped(self, part: StepPart, waiting: Sequence[Birth], readings: Readings) -> set[Birth]:
        """Births of batches that were left out: what they made was read, or had gradients."""
        calls, soundness = part.calls, self.soundness
        ends = [loss.call for loss in part.losses if loss.call is not None]
        lasting = arrival.bad_lasting_values(calls, soundness.bad_slots)
        ends += [place[0] for place in lasting.values()]
        found = set(soundness.leading_to(waiting, ends))
        return found | {birth for birth, _ in readings}

    def _is_of_interest(self, birth: Birth) -> bool:
        return self._table.is_watched(birth.node) and not self._table.is_ignored(birth.node)

    def _is_selected(self, watchpoint: Watchpoint, node: Node) -> bool:
        muted = watchpoint.is_muted(node) or self._table.is_ignored(node)
        selected = watchpoint.select.matches(node, node.gradient_of or node.parameter)
        return self._table.is_watched(node) and selected and not muted


def _batches(
    calls: Calls, births: Sequence[Birth], readings: Readings
) -> Iterator[tuple[Birth, int]]:
    """Yield the first birth of each batch, with a call of its pass.

    A batch may be made before its pass begins: what comes in after the script has looked at the
    one before is of another.
    """
    last: Birth | None = None
    for birth in births:
        known = last is not None and calls.pass_of(last.call) == calls.pass_of(birth.call)
        looked = [] if last is None else [c for b, c in readings if b.call <= last.call]
        is_next = birth.node.phase is Phase.FORWARD and any(c < birth.call for c in looked)
        if not known or is_next:
            last = birth
            yield birth, max([birth.call, *(c for b, c in readings if b is birth and is_next)])

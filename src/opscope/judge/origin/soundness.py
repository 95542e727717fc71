"""Follows NaN and Inf through the operators of a step: which are on purpose, where each began.

A value is *sound* if it is finite, or if its infinities were written on purpose (a mask filled with
-Inf) or are memory that nobody has written to yet. An operator that turns sound inputs into
something else is where something may have gone wrong: a *birth*. It did go wrong if what was born
*arrives* (`opscope.judge.origin.arrival`). A NaN is never on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import DATA_GRAPH, SETUP_GRAPH, Node, Output, Outside, Source
from opscope.judge.origin import operators, walking
from opscope.judge.origin.birth import (
    FROM_RANKS,
    FROM_SCRIPT,
    FROM_STORAGE,
    LASTING,
    UNSEEN,
    Bad,
    BadCause,
    Birth,
    Place,
    when,
)
from opscope.judge.origin.operators import is_transparent
from opscope.judge.origin.step_rows import StepRows, bad_by_call
from opscope.judge.selection import base_type
from opscope.stats.glance import Glance
from opscope.stats.record import INPUT, bad_among, has_bad

Records = NDArray[np.void]

BadInputs = Callable[[Node, int], Iterable[int]]
"""A node and the index of its call → its inputs that were seen to hold NaN or Inf."""


class Soundness:
    """Follows one rank's values, step after step."""

    def __init__(self, bad_inputs: BadInputs = lambda node, call: ()) -> None:
        self._bad_inputs = bad_inputs
        self.calls = Calls()
        """Those of the step."""
        self.births: list[Birth] = []
        """The places where something bad of this step began, in order."""
        self.arrived: list[Birth] = []
        """Those of them that got somewhere."""
        self.status: dict[Place, BadCause] = {}
        self.bad: dict[Place, Bad] = {}
        self.bad_slots: dict[int, list[int]] = {}
        """By call: those of its outputs that hold NaN or Inf."""
        self._carried: dict[Place, Outside] = {}
        self._fresh: list[Birth] = []
        self._rows = StepRows()
        self._infinite_at_first: dict[str, bool] = {}
        self._first_step: int | None = None

    def begin(self) -> None:
        """Begin a new step, of whose values nothing is known."""
        for of_step in (
            *(self.births, self.arrived, self.status, self.bad, self.bad_slots),
            *(self._carried, self._rows),
        ):
            of_step.clear()

    def follow(self, records: Records, calls: Calls, seen: Glance | None = None) -> list[Birth]:
        """Go on with more rows of the step, in the order they ran; returns the new births."""
        self.calls = calls
        self._fresh = []
        self._rows.add(records)
        if self._first_step is None and len(records):
            self._first_step = int(records["step"][0])
        if has_bad(records) if seen is None else seen.bad:
            wrong = records[bad_among(records)]
            self._note_buffers(wrong)
            for call, inputs, outputs in bad_by_call(wrong):
                if calls.nodes[call].graph not in (SETUP_GRAPH, DATA_GRAPH):
                    self._see(call, inputs, outputs)
            self._fresh.sort(key=when)
        return self._fresh

    def arrive(self, ends: Sequence[int]) -> list[Birth]:
        """Note what has led to these calls as arrived; return those births that had not before."""
        leading = [b for b in self.births if b.entered and b.entered.kind in LASTING]
        leading += self.leading_to(self.births, ends)
        known = {birth.entered for birth in leading if birth.entered is not None}
        if any(source.kind == "batch" for source in known):
            # What a loader stacks is a batch by another name once it is handed out.
            leading += [b for b in self.births if b.entered and operators.is_in_loader(b.node)]
        leading += [b for b in self.births if b.entered in known and b not in leading]
        leading += self._unexplained(ends, bool(leading or self.arrived))
        fresh = [birth for birth in dict.fromkeys(leading) if birth not in self.arrived]
        self.arrived = sorted([*self.arrived, *fresh], key=when)
        return sorted(fresh, key=when)

    def _unexplained(self, ends: Sequence[int], has_others: bool) -> list[Birth]:
        """Return births for ends that no birth leads to: purpose that took over, or the unseen."""
        found: list[Birth] = []
        for call in ends:
            slots = self.bad_slots.get(call, ())
            if not slots or self.leading_to(self.births, [call]):
                continue
            if all(self.status[call, slot] is BadCause.ON_PURPOSE for slot in slots):
                taken = self.where_infinities_took_over(call)
                found += [] if taken is None else [taken]
            elif not has_others:
                found += [birth for birth in self.births if birth.entered is not None]
        return found[:1] if found and found[0].entered is None else found

    def where_infinities_took_over(self, call: int) -> Birth | None:
        """Find where infinities on purpose left nothing else, on the way to a call's outputs."""
        places = self.ancestors(call)
        if not places:
            return None
        whole = [place for place in places if self.bad[place].finite == 0]
        reduced = [place for place in places if self._is_reduced(place)]
        if reduced:  # or it is the making of the mask itself that leaves nothing else
            whole = [place for place in whole if self.calls.sources_of(place[0])] + reduced
        chosen = min(whole) if whole else max(places)
        node = self.calls.nodes[chosen[0]]
        return Birth(node, *chosen, self.bad[chosen], of=BadCause.ON_PURPOSE)

    def _is_reduced(self, place: Place) -> bool:
        """Tell whether a value is made of more elements, of which only some are infinite."""
        before = [self.bad[p] for p in self._feeding(place[0]) if p is not None and p in self.bad]
        reads = not is_transparent(self.calls.nodes[place[0]])
        count = self.bad[place].count
        return reads and any(bad.count > count and bad.finite for bad in before)

    def leading_to(self, births: Iterable[Birth], ends: Iterable[int]) -> list[Birth]:
        """Return those of some births whose bad values went on to one of these calls."""
        return walking.leading_to(self.calls, self.bad_slots, births, ends)

    def ancestors(self, call: int) -> list[Place]:
        """Return the bad values that a call's outputs come from, itself included."""
        return walking.ancestors(self.calls, self.bad_slots, call)

    def _feeding(self, call: int) -> list[Place | None]:
        """By input slot of a call: the output it is of, if it is one."""
        return walking.feeding(self.calls, call)

    def _born(self, birth: Birth) -> None:
        self._fresh.append(birth)
        self.births.append(birth)
        self.births.sort(key=when)

    def row(self, call: int, side: int, slot: int) -> np.void | None:
        """Return the row of a value of this step, if there is one; of an input, its source's."""
        return self._rows.find(self.calls, call, side, slot)

    def records(self) -> Records:
        """Return all rows of the step so far."""
        return self._rows.all()

    # ------------------------------------------------------------------ one call

    def _see(self, call: int, inputs: dict[int, Bad], outputs: dict[int, Bad]) -> None:
        node = self.calls.nodes[call]
        kinds = self._inputs(call, inputs)
        for slot, bad in outputs.items():
            place = (call, slot)
            status = self._output(call, slot, bad, kinds)
            if place not in self.status:
                self.bad_slots.setdefault(call, []).append(slot)
            self.status[place], self.bad[place] = status, bad
            if is_transparent(node):
                self._carry(place)

    def _carry(self, place: Place) -> None:
        """Hand the outside source of an input on to a view of it."""
        call = place[0]
        node, sources = self.calls.nodes[call], self.calls.sources_of(call)
        source: Source | None = sources[0] if sources else None
        if isinstance(source, Output):
            base = self._feeding(call)[0]
            source = self._carried.get(base) if base is not None else None
        if source is not None:
            fresh = base_type(node) in operators.ARRIVALS or operators.is_in_loader(node)
            if fresh and source.kind == "outside":
                source = Outside("batch", source.name)
            self._carried[place] = source

    def _inputs(self, call: int, inputs: dict[int, Bad]) -> dict[BadCause, int]:
        """The kinds of unsound and odd inputs, and the slot of the first of each."""
        kinds: dict[BadCause, int] = {}
        feeding = self._feeding(call)
        for slot, source in enumerate(self.calls.sources_of(call)):
            status = self._source_status(call, slot, source, feeding[slot], inputs.get(slot))
            if status is not None:
                kinds.setdefault(status, slot)
        return kinds

    def _source_status(
        self, call: int, slot: int, source: Source, place: Place | None, bad: Bad | None
    ) -> BadCause | None:
        node = self.calls.nodes[call]
        if isinstance(source, Output):
            if source.uninitialised:
                return BadCause.UNWRITTEN
            if place is None:
                return None
            status = self.status.get(place) or self._behind(place[0])
            carried = self._carried.get(place)
            if status is BadCause.FAULT and carried is not None and not is_transparent(node):
                self._enters(_arriving(node, call, slot, self.bad[place], carried))
            return status
        if bad is None or operators.is_overwritten(node, slot):
            return None
        if self._is_on_purpose(source, bad):
            return BadCause.ON_PURPOSE
        if not is_transparent(node):
            self._enters(_arriving(node, call, slot, bad, source))
        return BadCause.FAULT

    def _behind(self, call: int) -> BadCause | None:
        """Return the status of the rest of a tensor of which a part was written last."""
        for base in walking.behind(self.calls, call):
            if self._is_unwritten(base):
                return BadCause.UNWRITTEN
            status = self.status.get(base)
            if status is not None:
                return status
        return None

    def _is_unwritten(self, place: Place) -> bool:
        outputs = self.calls.nodes[place[0]].outputs
        return place[1] < len(outputs) and outputs[place[1]].uninitialised

    def _enters(self, birth: Birth) -> None:
        """Note something bad that came in from outside."""
        node, slot, source = birth.node, birth.slot, birth.entered
        known = [other for other in self.births if other.entered is not None]
        if source is not None and source.kind in (*LASTING, UNSEEN):
            is_known = any(other.entered == source for other in known)
        else:
            same = [b for b in known if (b.node.id, b.slot) == (node.id, slot)]
            is_known = any(self._is_of_one_batch(b, birth) for b in same)
        if not is_known:
            self._born(birth)

    def _is_of_one_batch(self, one: Birth, later: Birth) -> bool:
        """Tell whether two births at one node, which may read in a loop, are of the same batch.

        The script writes a number to a batch before the pass of that batch begins.
        """
        if later.entered == FROM_SCRIPT:
            between = self.calls.nodes[one.call : later.call]
            return not any(node.module_class for node in between)
        return self.calls.pass_of(one.call) == self.calls.pass_of(later.call)

    def _is_on_purpose(self, source: Outside, bad: Bad) -> bool:
        """Tell whether infinities from outside look like a mask or a starting value."""
        if bad.nan:
            return False
        if bad.zero + bad.neginf == bad.count:  # 0 and -Inf only: a mask
            return True
        if source.kind == "buffer":
            may_be = not bad.posinf or bad.finite == 0  # +Inf here and there is no mask
            return may_be and self._infinite_at_first.get(source.name, False)
        if source.kind != "outside":
            return False
        return not bad.posinf or bad.finite == 0

    def _output(self, call: int, slot: int, bad: Bad, kinds: dict[BadCause, int]) -> BadCause:
        if BadCause.FAULT in kinds:
            return BadCause.FAULT
        node = self.calls.nodes[call]
        op = base_type(node)
        if op == operators.STORAGE:
            self._enters(Birth(node, call, slot, bad, FROM_STORAGE))
            return BadCause.FAULT
        if BadCause.UNWRITTEN in kinds and (op in operators.PIECEWISE or op in operators.VIEWS):
            return BadCause.UNWRITTEN
        if operators.is_collective(node):
            self._born(Birth(node, call, slot, bad, FROM_RANKS))
            return BadCause.FAULT
        if not bad.nan:
            if BadCause.ON_PURPOSE in kinds or BadCause.UNWRITTEN in kinds:
                return min(s for s in kinds if s in (BadCause.ON_PURPOSE, BadCause.UNWRITTEN))
            if _writes_infinity(node, op):
                return BadCause.ON_PURPOSE
        if self._came_unseen(call):
            return BadCause.FAULT
        of = next((s for s in (BadCause.ON_PURPOSE, BadCause.UNWRITTEN) if s in kinds), None)
        self._born(Birth(node, call, slot, bad, of=of))
        return BadCause.FAULT

    def _came_unseen(self, call: int) -> bool:
        """Tell whether an input was bad without its row saying so: something wrote to it unseen."""
        node, sources = self.calls.nodes[call], self.calls.sources_of(call)
        for slot in self._bad_inputs(node, call):
            source = sources[slot] if slot < len(sources) else None
            if isinstance(source, Output):
                if self.row(call, INPUT, slot) is not None:
                    continue
                source = Outside(UNSEEN, source.node.name)  # such as one outside of --scope
            if source is not None:
                self._enters(Birth(node, call, slot, Bad(0, 0, 0, 0, 0), source))
                return True
        return False

    def _note_buffers(self, records: Records) -> None:
        """Note of each buffer whether it was infinite when it was first seen."""
        inputs = records[(records["io"] == INPUT) & ((records["posinf"] | records["neginf"]) > 0)]
        for record in inputs:
            slot, sources = int(record["slot"]), self.calls.sources_of(int(record["call"]))
            source = sources[slot] if slot < len(sources) else None
            if isinstance(source, Outside) and source.kind == "buffer":
                first = int(record["step"]) == self._first_step
                self._infinite_at_first.setdefault(source.name, first)


def _arriving(node: Node, call: int, slot: int, bad: Bad, source: Outside) -> Birth:
    """Something bad that a node reads from outside; `x[3] = nan` reads a number of the script."""
    is_number = base_type(node) == "copy" and bad.count == 1 and not operators.is_in_loader(node)
    named = FROM_SCRIPT if is_number and source.kind in ("batch", "outside") else source
    return Birth(node, call, slot, bad, named)


def _writes_infinity(node: Node, op: str) -> bool:
    texts = node.arguments.values()
    return op in operators.WRITERS and any("inf" in text.lower() for text in texts)

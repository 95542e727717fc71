"""Follows NaN and Inf through the operators of a step: which are on purpose, where each began.

A value is *sound* if it is finite, or if its infinities were written on purpose (a mask filled with
-Inf) or are memory that nobody has written to yet. An operator that turns sound inputs into
something else is where a fault began: a *birth*. A NaN is never on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import DATA_GRAPH, SETUP_GRAPH, Node, Output, Outside, Phase, Source
from opscope.judge.origin import operators, walking
from opscope.judge.origin.birth import FROM_RANKS, UNSEEN, Bad, Birth, Place, Status, when
from opscope.judge.origin.operators import is_inside_formula, is_transparent
from opscope.judge.origin.step_rows import StepRows, bad_by_call
from opscope.judge.selection import base_type
from opscope.stats.record import INPUT, bad_among, has_bad

Records = NDArray[np.void]
Formula = tuple[int, int] | None
"""A forward node's id and the pass it ran in: what autograd computes the gradient of."""
_HUGE = 1e30
"""Masks are also written with the lowest finite number; two of them added overflow."""
_HUGE_HALF = 6e4
_WRITES_BACK = 64

BadInputs = Callable[[Node, int], Iterable[int]]
"""A node and the index of its call → its inputs that were seen to hold NaN or Inf."""


class Soundness:
    """Follows one rank's values, step after step."""

    def __init__(self, bad_inputs: BadInputs = lambda node, call: ()) -> None:
        self._bad_inputs = bad_inputs
        self.calls = Calls()
        """Those of the step."""
        self.births: list[Birth] = []
        """Where faults of this step began, in order."""
        self.status: dict[Place, Status] = {}
        self.bad: dict[Place, Bad] = {}
        self.bad_slots: dict[int, list[int]] = {}
        """By call: those of its outputs that hold NaN or Inf."""
        self.reached_gradient: set[str] = set()
        """Parameters whose gradient has a fault."""
        self.reached_parameter: set[str] = set()
        """Parameters that an update has spoilt."""
        self._carried: dict[Place, Outside] = {}
        self._fresh: list[Birth] = []
        self._inner: list[Birth] = []
        self._pending: list[Birth] = []
        self._late: list[tuple[Place, Birth]] = []
        self._rows = StepRows()
        self._ends: list[int] = []
        """The calls that made bad gradients and parameters."""
        self._infinite_at_first: dict[str, bool] = {}
        self._first_step: int | None = None

    def begin(self) -> None:
        """A new step: nothing is known of its values."""
        for of_step in (
            *(self.births, self.status, self.bad, self._pending, self._late, self._rows),
            *(self._carried, self._inner, self._ends, self.bad_slots),
            *(self.reached_gradient, self.reached_parameter),
        ):
            of_step.clear()

    def follow(self, records: Records, calls: Calls) -> list[Birth]:
        """Go on with more rows of the step, in the order they ran; returns the new births."""
        self.calls = calls
        self._fresh = []
        self._rows.add(records)
        if self._first_step is None and len(records):
            self._first_step = int(records["step"][0])
        if has_bad(records):
            wrong = records[bad_among(records)]
            self._note_buffers(wrong)
            for call, inputs, outputs in bad_by_call(wrong):
                if calls.nodes[call].graph not in (SETUP_GRAPH, DATA_GRAPH):
                    self._see(call, inputs, outputs)
        if self._inner:
            self._leave_formulas(records)
        return sorted(self._fresh, key=when)

    def release(self, losses: Iterable[int | None] = ()) -> list[Birth]:
        """What came from outside counts once it has reached a loss, a gradient or a parameter."""
        if not self._pending:
            return []
        ends = [call for call in losses if call is not None and self._is_fault(call)]
        ends += self._ends
        if not ends:
            return []
        leading = {birth.entered for birth in self.leading_to(self._pending, ends)}
        if not leading and not self.births:  # something on the way was not seen
            leading = {birth.entered for birth in self._pending}
        batch = any(source is not None and source.kind == "batch" for source in leading)
        released: list[Birth] = []
        kept: list[Birth] = []
        for birth in self._pending:
            # What a loader stacks is a batch by another name once it is handed out.
            leads = birth.entered in leading or (batch and operators.is_in_loader(birth.node))
            (released if leads else kept).append(birth)
        self._pending = kept
        for birth in released:
            self._born(birth)
        return released

    def aside(
        self,
        births: Iterable[Birth],
        losses: Iterable[int | None],
    ) -> list[Birth]:
        """Those of some births that are beside training, such as arithmetic on positions.

        Nothing differentiates what comes of them, and it reaches no loss, gradient or parameter.
        Without any backward pass nothing is beside training.
        """
        found = [b for b in births if b.entered is None and b.node.phase is Phase.FORWARD]
        if not found:
            return []
        faulty = {place[0] for place, status in self.status.items() if status is Status.FAULT}
        differentiated = walking.differentiated(self.calls, faulty)
        if differentiated is None:
            return []
        ends = [call for call in losses if call is not None]
        leading = self.leading_to(found, [*ends, *self._ends, *differentiated])
        return [birth for birth in found if birth not in leading]

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

    def _is_fault(self, call: int) -> bool:
        slots = self.bad_slots.get(call, ())
        return any(self.status[call, slot] is Status.FAULT for slot in slots)

    # ------------------------------------------------------------------ one call

    def _see(self, call: int, inputs: dict[int, Bad], outputs: dict[int, Bad]) -> None:
        node = self.calls.nodes[call]
        kinds = self._inputs(call, inputs)
        for slot, bad in outputs.items():
            place = (call, slot)
            status = self._output(call, slot, bad, outputs, kinds)
            if place not in self.status:
                self.bad_slots.setdefault(call, []).append(slot)
            self.status[place], self.bad[place] = status, bad
            if status is Status.FAULT:
                self._note_reach(call, slot)
            if is_transparent(node):
                self._carry(place)

    def _leave_formulas(self, records: Records) -> None:
        """A fault inside the formula of a gradient counts once something else reads it.

        Some formulas divide by 0 and mask the result themselves.
        """
        first = min(birth.call for birth in self._inner)
        later = np.unique(records["call"][records["call"] > first])
        readers: dict[Formula, set[Formula]] = {}
        for call in later.tolist():
            for place in self._feeding(call):
                if place is not None and self.status.get(place) is Status.FAULT:
                    readers.setdefault(self._formula(place[0]), set()).add(self._formula(call))
        for birth in list(self._inner):
            formula = self._formula(birth.call)
            if readers.get(formula, set()) - {formula}:
                self._inner.remove(birth)
                self._born(birth)

    def _formula(self, call: int) -> Formula:
        """What autograd computes the gradient of with this call."""
        node = self.calls.nodes[call]
        if node.forward is None or node.gradient_of:
            return None
        return node.forward.id, self.calls.pass_of(call)

    def _carry(self, place: Place) -> None:
        """A view of what came from outside is still what came from outside."""
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

    def _inputs(self, call: int, inputs: dict[int, Bad]) -> dict[Status, int]:
        """The kinds of unsound and odd inputs, and the slot of the first of each."""
        kinds: dict[Status, int] = {}
        feeding = self._feeding(call)
        for slot, source in enumerate(self.calls.sources_of(call)):
            status = self._source_status(call, slot, source, feeding[slot], inputs.get(slot))
            if status is not None:
                kinds.setdefault(status, slot)
        return kinds

    def _source_status(
        self, call: int, slot: int, source: Source, place: Place | None, bad: Bad | None
    ) -> Status | None:
        node = self.calls.nodes[call]
        if isinstance(source, Output):
            if source.uninitialised:
                return Status.UNWRITTEN
            if place is None:
                return None
            status = self.status.get(place) or self._behind(place[0])
            carried = self._carried.get(place)
            if status is Status.FAULT and carried is not None and not is_transparent(node):
                self._enters(Birth(node, call, slot, self.bad[place], carried))
            return status
        if bad is None:
            return None
        if self._is_on_purpose(source, bad):
            return Status.ON_PURPOSE
        if not is_transparent(node):
            self._enters(Birth(node, call, slot, bad, source))
        return Status.FAULT

    def _behind(self, call: int) -> Status | None:
        """What is the matter with the rest of a tensor of which a part was written last."""
        for _ in range(_WRITES_BACK):
            view = self._first_of(call) if self.calls.nodes[call].op_type.endswith("_") else None
            if view is None or not is_transparent(self.calls.nodes[view[0]]):
                return None
            base = self._first_of(view[0])
            if base is None:
                return None
            if self._is_unwritten(base):
                return Status.UNWRITTEN
            status = self.status.get(base)
            if status is not None:
                return status
            call = base[0]
        return None

    def _first_of(self, call: int) -> Place | None:
        """The output that the first input of a call is, if it is one."""
        feeding = self._feeding(call)
        return feeding[0] if feeding else None

    def _is_unwritten(self, place: Place) -> bool:
        outputs = self.calls.nodes[place[0]].outputs
        return place[1] < len(outputs) and outputs[place[1]].uninitialised

    def _enters(self, birth: Birth) -> None:
        """Something bad came in from outside: a batch counts only if it gets somewhere."""
        node, slot, source = birth.node, birth.slot, birth.entered
        assert source is not None
        if source.kind in ("parameter", "buffer", "state", UNSEEN):
            if all(other.entered != source for other in self.births):
                self._born(birth)
        elif all((b.node.id, b.slot) != (node.id, slot) for b in self._pending):
            self._pending.append(birth)

    def _is_on_purpose(self, source: Outside, bad: Bad) -> bool:
        """Whether infinities from outside look like a mask or a starting value."""
        if bad.nan:
            return False
        if bad.zero + bad.neginf == bad.count:  # 0 and -Inf only: a mask
            return True
        if source.kind == "buffer":
            return self._infinite_at_first.get(source.name, False)
        if source.kind != "outside":
            return False
        return not bad.posinf or bad.finite == 0

    def _output(
        self,
        call: int,
        slot: int,
        bad: Bad,
        outputs: dict[int, Bad],
        kinds: dict[Status, int],
    ) -> Status:
        if Status.FAULT in kinds:
            return Status.FAULT
        if self._revive_unused(call, kinds):
            return Status.FAULT
        node = self.calls.nodes[call]
        op = base_type(node)
        if Status.UNWRITTEN in kinds and (op in operators.PIECEWISE or op in operators.VIEWS):
            return Status.UNWRITTEN
        if operators.is_collective(node):
            self._born(Birth(node, call, slot, bad, FROM_RANKS))
            return Status.FAULT
        if not bad.nan:
            if Status.ON_PURPOSE in kinds or Status.UNWRITTEN in kinds:
                return min(s for s in kinds if s in (Status.ON_PURPOSE, Status.UNWRITTEN))
            if self._writes_infinity(call, op, bad):
                return Status.ON_PURPOSE
        if slot > 0 and 0 not in outputs and not operators.outputs_are_alike(node):
            birth = Birth(node, call, slot, bad)
            self._late.append(((call, slot), birth))
            return Status.UNUSED
        if self._came_unseen(call):
            return Status.FAULT
        of = next((s for s in (Status.ON_PURPOSE, Status.UNWRITTEN) if s in kinds), None)
        birth = Birth(node, call, slot, bad, of=of)
        if is_inside_formula(node):
            self._inner.append(birth)
        else:
            self._born(birth)
        return Status.FAULT

    def _came_unseen(self, call: int) -> bool:
        """Whether an input was bad without its row saying so: something wrote to it unseen."""
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

    def _revive_unused(self, call: int, kinds: dict[Status, int]) -> bool:
        """A further output that was bad and is read now, with a bad result: it began there."""
        if Status.UNUSED not in kinds:
            return False
        read = set(self._feeding(call))
        for place, birth in self._late:
            if place in read and self.status[place] is Status.UNUSED:
                self._born(birth)
                self.status[place] = Status.FAULT
        return True

    def _writes_infinity(self, call: int, op: str, bad: Bad) -> bool:
        node = self.calls.nodes[call]
        if op in operators.WRITERS and any(
            "inf" in text.lower() for text in node.arguments.values()
        ):
            return True
        if op in operators.IDENTITIES and not bad.nan:
            return True
        if op in operators.SUMS and not bad.posinf:
            return any(self._is_finite_mask(call, slot) for slot in range(len(node.sources)))
        return False

    def _is_finite_mask(self, call: int, slot: int) -> bool:
        row = self.row(call, INPUT, slot)
        if row is None or row["kind"] != 0:
            return False
        return bool(row["min"] <= -_HUGE or (row["min"] <= -_HUGE_HALF and row["max"] <= 0))

    def _note_reach(self, call: int, slot: int) -> None:
        node = self.calls.nodes[call]
        if node.gradient_of:
            self.reached_gradient.add(node.gradient_of)
            self._ends.append(call)
        elif node.phase is Phase.OPTIMIZER and slot < len(node.outputs):
            parameter = node.outputs[slot].parameter
            if parameter:
                self.reached_parameter.add(parameter)
                self._ends.append(call)

    def _note_buffers(self, records: Records) -> None:
        """Whether a buffer was infinite when it was first seen."""
        inputs = records[(records["io"] == INPUT) & ((records["posinf"] | records["neginf"]) > 0)]
        for record in inputs:
            slot, sources = int(record["slot"]), self.calls.sources_of(int(record["call"]))
            source = sources[slot] if slot < len(sources) else None
            if isinstance(source, Outside) and source.kind == "buffer":
                first = int(record["step"]) == self._first_step
                self._infinite_at_first.setdefault(source.name, first)

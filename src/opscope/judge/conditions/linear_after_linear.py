"""LL: a linear layer right after another, which together are only one."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import Outside
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls, maker
from opscope.judge.origin.operators import is_transparent
from opscope.judge.origin.walking import feeding
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep
from opscope.judge.wiring import readers
from opscope.stats.record import OUTPUT

_DATA = {"addmm": 1, "mm": 0, "linear": 0}
"""By operator of a linear layer: the slot of what it is applied to; that of its weight follows."""


class LinearAfterLinear(GraphCheck):
    """Looks at what linear layers are applied to."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield linear layers that read the output of another, which nothing else reads."""
        for call, node in forward_calls(calls, *_DATA):
            before = maker(calls, call, _DATA[base_type(node)])
            if before is None or not (_is_linear(calls, call) and _is_linear(calls, before)):
                continue
            if _final_readers(calls, before) == {call}:
                yield Spot(call, node, str(before))

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Leave those alone that make a matrix of low rank, as adapters do."""
        first = int(spot.kind)
        given = self.input_row(step, first, _DATA[base_type(step.calls.nodes[first])])
        rows = (given, *(step.row(call, OUTPUT, 0) for call in (first, spot.call)))
        shapes = [self.shape(row) for row in rows]
        if not all(shapes):
            return None
        start, middle, end = (shape[-1] for shape in shapes if shape)
        if middle < min(start, end):
            return None
        return (
            f"there is nothing between this linear layer and the one before it "
            f"({step.calls.nodes[first].name}): from {start} over {middle} to {end} features they "
            "do what one layer does; put an activation such as ReLU between them, or leave one out"
        )


def _is_linear(calls: Calls, call: int) -> bool:
    """Tell whether a call multiplies something with a parameter itself."""
    slot = _DATA.get(base_type(calls.nodes[call]))
    return slot is not None and _is_parameter(calls, call, slot + 1)


def _is_parameter(calls: Calls, call: int, slot: int) -> bool:
    """Tell whether an input is a parameter, seen through views of it."""
    while True:
        sources = calls.sources_of(call)
        source = sources[slot] if slot < len(sources) else None
        if isinstance(source, Outside):
            return source.kind == "parameter"
        places = feeding(calls, call)
        place = places[slot] if slot < len(places) else None
        if place is None or not is_transparent(calls.nodes[place[0]]):
            return False
        call, slot = place[0], 0


def _final_readers(calls: Calls, call: int) -> set[int]:
    """The calls that make something of the output of a call, seen through views of it."""
    found: set[int] = set()
    views = [call]
    while views:
        for reader in readers(calls, views.pop()):
            if is_transparent(calls.nodes[reader]):
                views.append(reader)
            else:
                found.add(reader)
    return found


LINEAR_AFTER_LINEAR = Condition(
    "LL",
    "linear_after_linear",
    TRAINING,
    "a linear layer comes right after another",
    training=LinearAfterLinear,
)

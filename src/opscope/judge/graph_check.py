"""Conditions on how operators hang together: found once per graph, judged in every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opscope.calls import Calls
from opscope.events import TRAINING_GRAPH, Node, Phase
from opscope.judge.hits import Hit
from opscope.judge.origin.birth import Place
from opscope.judge.origin.operators import is_transparent
from opscope.judge.origin.walking import behind, feeding
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.judge.wiring import comes_of
from opscope.stats.record import INPUT, OUTPUT

WRITTEN = ("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "full", "full_like", "zero")
"""Operators that make a value of one number."""
_FAR = 16
_UNKNOWN, _PARTLY = (-1, -1), (-2, -2)


class Spot(NamedTuple):
    """A call that a condition has something to say about, and what it is about, in a word."""

    call: int
    node: Node
    kind: str = ""


class GraphCheck(TrainingCheck):
    """Looks for a pattern when operators hang together in a new way; each node is told of once."""

    def start(self) -> None:
        """Begin without having seen any calls."""
        self._calls = Calls()
        self._spots: list[Spot] = []
        self._sources: dict[Place, Place | None] = {}

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield what is to be judged in every step that hangs together like this."""
        raise NotImplementedError

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Return what is wrong, if something is."""
        raise NotImplementedError

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Judge what there is of the pattern."""
        calls = step.calls
        if not calls.is_wired_like(self._calls):
            self._calls, self._sources = calls, {}
            self._spots = list(self.find(calls))
        self.training.checked(self.watchpoint, len(self._spots))
        for spot in self._spots:
            key = str(spot.node.id)
            if key in self.told or self.is_left_alone(spot.node):
                continue
            message = self.judge(step, spot)
            if message is not None:
                self.told.add(key)
                yield self.hit_at(step, message, spot.node, spot.call)

    def rests(self, calls: Calls) -> bool:
        """Return whether the pattern is not there at all."""
        return self._calls is calls and not self._spots

    def input_row(self, step: SeenStep, call: int, slot: int) -> np.void | None:
        """Return the row of an input; where it comes from is the same in steps that are alike."""
        place = self._sources.get((call, slot), _UNKNOWN)
        if place is _UNKNOWN:
            place = self._sources[call, slot] = self._source(call, slot)
        if place is None:
            return step.row(call, INPUT, slot)
        return None if place is _PARTLY else step.row(place[0], OUTPUT, place[1])

    def _source(self, call: int, slot: int) -> Place | None:
        """The output that an input is, which has its row unless only a part was written last."""
        places = feeding(self._calls, call)
        place = places[slot] if slot < len(places) else None
        written = place is not None and next(behind(self._calls, place[0]), None) is not None
        return _PARTLY if written else place

    def shape(self, row: np.void | None) -> tuple[int, ...] | None:
        """Return the shape of a value."""
        kind = None if row is None else self.training.kind_of(int(row["shape"]))
        return None if kind is None else kind[1]


def forward_calls(calls: Calls, *op_types: str) -> Iterator[tuple[int, Node]]:
    """Yield the calls of these operators in what is trained on."""
    for call, node in enumerate(calls.nodes):
        trains = node.graph == TRAINING_GRAPH and node.phase is Phase.FORWARD and node.with_grad
        if trains and base_type(node) in op_types:
            yield call, node


def maker(calls: Calls, call: int, slot: int) -> int | None:
    """Return the call that made an input, seen through views of it; None if none of the step."""
    for _ in range(_FAR):
        places = feeding(calls, call)
        place = places[slot] if slot < len(places) else None
        if place is None:
            return None
        call, slot = place[0], 0
        if not is_transparent(calls.nodes[call]):
            return call
    return None


def data_slots(calls: Calls, call: int) -> list[int]:
    """Return which inputs of a product with weights are data, neither parameters nor buffers."""
    kinds = [comes_of(calls, call, slot) for slot in range(len(calls.sources_of(call)))]
    if not any("parameter" in each for each in kinds):
        return []
    return [slot for slot, of in enumerate(kinds) if "parameter" not in of and of != {"buffer"}]


def data_inputs(calls: Calls, *op_types: str) -> Iterator[tuple[int, Node, int]]:
    """Yield the calls of these products with weights that read data, and by which slots."""
    for call, node in forward_calls(calls, *op_types):
        for slot in data_slots(calls, call):
            yield call, node, slot

"""DB: batches that are constant, or always the same though a DataLoader brings them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.calls import Calls
from opscope.events import DATA_GRAPH
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.graph_check import WRITTEN, GraphCheck, Spot, data_inputs, maker
from opscope.judge.history import signature
from opscope.judge.origin.operators import is_in_loader
from opscope.judge.outcome import Params
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep
from opscope.stats.record import FLOAT

_PRODUCTS = ("addmm", "mm", "bmm", "convolution", "linear", "native_batch_norm", "embedding")
_FEW = 8
_SMALL = 16
"""Tables of so few rows are of kinds rather than words, such as the two halves of a text."""


def repeats(steps: int, params: Params) -> bool:
    """Return whether it has been so for long enough."""
    return steps >= params[STEPS]


class BatchRepeats(GraphCheck):
    """Looks at batches that are first read by a layer with weights."""

    def start(self) -> None:
        """Begin without having seen a batch."""
        super().start()
        self._last: dict[int, tuple[bytes, int, int]] = {}
        """By node: what the batch looked like, for how many steps, and in how many constant."""
        self._has_loader = False

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield the layers that read a batch."""
        self._has_loader |= any(n.graph == DATA_GRAPH or is_in_loader(n) for n in calls.nodes)
        for call, node, slot in data_inputs(calls, *_PRODUCTS):
            if not _is_starting_state(calls, call, slot):
                yield Spot(call, node, str(slot))

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Find batches that say nothing, or nothing new."""
        row = self.input_row(step, spot.call, int(spot.kind))
        if row is None or int(row["count"]) < _FEW:
            return None
        now = signature(np.array([row])).tobytes()
        before, same, constant = self._last.get(spot.node.id, (b"", 0, 0))
        same = same + 1 if now == before else 0
        constant = constant + 1 if self._is_constant(step, spot, row) else 0
        self._last[spot.node.id] = now, same, constant
        params = self.watchpoint.params
        if repeats(constant, params):
            return (
                f"every element of the batch is {_least(row):g}, in each of {constant} steps; "
                "expected is data that varies: is it read at all, are its words known?"
            )
        if repeats(same, params) and self._has_loader:
            return (
                f"the DataLoader has brought the same batch in {same + 1} steps: is "
                "next(iter(loader)) called in every step, which begins anew?"
            )
        return None

    def _is_constant(self, step: SeenStep, spot: Spot, row: np.void) -> bool:
        """Tell whether all elements are one number; indices into a small table may well be."""
        if row["kind"] == FLOAT:
            return bool(row["min"] == row["max"])
        table = self.shape(self.input_row(step, spot.call, 0)) or (0,)
        whole = base_type(spot.node) == "embedding" and table[0] > _SMALL
        return bool(whole and row["min_int"] == row["max_int"])


def _is_starting_state(calls: Calls, call: int, slot: int) -> bool:
    """Tell whether an input is written by a module itself, as recurrent layers begin with zeros."""
    made = maker(calls, call, slot)
    node = None if made is None else calls.nodes[made]
    return node is not None and base_type(node) in WRITTEN and "/" in node.scope


def _least(row: np.void) -> float:
    return float(row["min"] if row["kind"] == FLOAT else row["min_int"])


BATCH_REPEATS = Condition(
    "DB",
    "batch_repeats",
    TRAINING,
    "batches are constant, or always the same",
    parameters=(Parameter(STEPS, 1, default=20.0),),
    training=BatchRepeats,
)

"""LB: a loss between predictions and targets that are broadcast against each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.calls import Calls
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep
from opscope.judge.wiring import comes_of, readers

_LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss")
_SIZES = ("abs", "pow", "square", "mul")
_TOTALS = ("mean", "sum")


class LossBroadcast(GraphCheck):
    """Looks at losses, and at differences whose size is averaged."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield losses of two tensors."""
        for call, node in forward_calls(calls, *_LOSSES):
            yield Spot(call, node)
        for call, node in forward_calls(calls, "sub"):
            if len(node.sources) == 2 and _is_loss(calls, call):
                yield Spot(call, node)

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Find [N] against [N, 1], of which broadcasting makes [N, N]."""
        shapes = [self._before_expansion(step, spot.call, slot) for slot in (0, 1)]
        if shapes[0] is not None and shapes[0] == shapes[1]:
            self.told.add(str(spot.node.id))  # they fit: nothing more to look for
            return None
        longer, shorter = sorted((shape or () for shape in shapes), key=len, reverse=True)
        if len(longer) != 2 or len(shorter) != 1 or longer != (shorter[0], 1) or shorter[0] < 2:
            return None
        first, second = (list(shape or ()) for shape in shapes)
        count = shorter[0]
        return (
            f"{spot.node.op_type} of {first} and {second} is broadcast to [{count}, {count}]: "
            "every prediction is compared with every target; expected equal shapes: "
            "prediction.squeeze(-1), or target.unsqueeze(-1)"
        )

    def _before_expansion(self, step: SeenStep, call: int, slot: int) -> tuple[int, ...] | None:
        producer = self._calls.producer(call, slot)
        if producer is not None and base_type(self._calls.nodes[producer]) == "expand":
            call, slot = producer, 0
        row: np.void | None = self.input_row(step, call, slot)
        return self.shape(row)


def _is_loss(calls: Calls, call: int) -> bool:
    """Tell whether the size of a difference of a prediction and a target is averaged."""
    learned = ["parameter" in comes_of(calls, call, slot) for slot in (0, 1)]
    if learned[0] == learned[1]:
        return False
    sizes = [c for c in readers(calls, call) if base_type(calls.nodes[c]) in _SIZES]
    return any(base_type(calls.nodes[c]) in _TOTALS for s in sizes for c in readers(calls, s))


LOSS_BROADCAST = Condition(
    "LB",
    "loss_broadcast",
    TRAINING,
    "prediction and target are broadcast against each other",
    training=LossBroadcast,
)

"""LI: a cross entropy that begins far above that of guessing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from opscope.calls import Calls
from opscope.judge.condition import TRAINING, Condition, Parameter
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls
from opscope.judge.training_check import SeenStep
from opscope.stats.record import OUTPUT

_MEAN = "1"
"""The argument by which torch says that a loss is the mean over its elements."""


class LossAtStart(GraphCheck):
    """Looks at cross entropies when they are first computed."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield those that are means over labels."""
        for call, node in forward_calls(calls, "nll_loss_forward", "nll_loss2d_forward"):
            if node.arguments.get("reduction") == _MEAN:
                yield Spot(call, node)

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Find one that is many times what equal probabilities give."""
        self.told.add(str(spot.node.id))
        shape = self.shape(self.input_row(step, spot.call, 0))
        row = step.row(spot.call, OUTPUT, 0)
        if shape is None or len(shape) < 2 or shape[1] < 2 or row is None:
            return None
        loss, guess = float(row["max"]), math.log(shape[1])
        if not loss > self.watchpoint.params["times_gt"] * guess:
            return None
        return (
            f"the first loss is {loss:.4g}, but guessing among {shape[1]} classes gives "
            f"{guess:.3g}: the logits are huge; initialise with smaller weights, and normalise the "
            "inputs"
        )


LOSS_AT_START = Condition(
    "LI",
    "loss_at_start",
    TRAINING,
    "a cross entropy begins far above that of guessing",
    parameters=(Parameter("times_gt", 1, default=10.0),),
    training=LossAtStart,
)

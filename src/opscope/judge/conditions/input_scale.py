"""DX: inputs of the network that are huge, and so were not normalised."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.judge.condition import TRAINING, Condition, Parameter
from opscope.judge.graph_check import GraphCheck, Spot, data_inputs
from opscope.judge.training_check import SeenStep

_PRODUCTS = ("addmm", "mm", "bmm", "convolution", "linear")


class InputScale(GraphCheck):
    """Looks at batches that a product with weights reads as they come."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield products with a batch."""
        for call, node, slot in data_inputs(calls, *_PRODUCTS):
            yield Spot(call, node, str(slot))

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Find elements that are too large."""
        row = self.input_row(step, spot.call, int(spot.kind))
        if row is None or not row["count"] or row["kind"] != 0:
            return None
        largest = max(abs(float(row["min"])), abs(float(row["max"])))
        if not largest > self.watchpoint.params["max_gt"]:
            return None
        return (
            f"the network is given inputs from {float(row['min']):.4g} to {float(row['max']):.4g} "
            f"(mean |x| {float(row['mean_abs']):.4g}); expected about -1 to 1: normalise them, "
            "(x - mean) / std for each feature"
        )


INPUT_SCALE = Condition(
    "DX",
    "input_scale",
    TRAINING,
    "inputs of the network are huge",
    parameters=(Parameter("max_gt", 0, default=100.0),),
    training=InputScale,
)

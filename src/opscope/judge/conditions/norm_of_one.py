"""NE: a norm over single elements, which leaves nothing of them."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import Node
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep

_NORMS = ("native_layer_norm", "layer_norm", "native_group_norm", "group_norm")


class NormOfOne(GraphCheck):
    """Looks at how many elements norms are over."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield norms over one."""
        for call, node in forward_calls(calls, *_NORMS):
            if _is_over_one(node):
                yield Spot(call, node)

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Say what becomes of a single element."""
        kind = base_type(spot.node).removeprefix("native_")
        return (
            f"{kind} is over single elements: each is its own mean, so that the output is the bias "
            "whatever the input is, and nothing before it learns; expected are two elements or "
            "more: normalise over the dimension of the features"
        )


def _is_over_one(node: Node) -> bool:
    arguments = node.arguments
    if "layer_norm" in node.op_type:
        sizes = arguments.get("normalized_shape", "").strip("[]() ,").split(",")
        return all(size.strip() == "1" for size in sizes)
    channels, groups = arguments.get("C", ""), arguments.get("group", "")
    return arguments.get("HxW") == "1" and channels == groups != ""


NORM_OF_ONE = Condition(
    "NE",
    "norm_of_one",
    TRAINING,
    "a norm is over single elements",
    training=NormOfOne,
)

"""LA: a loss that is given what has gone through its own activation already, or lacks it."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls, maker, readers
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep

_NLL = ("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d")
_SOFT = ("_softmax", "softmax", "_log_softmax", "log_softmax")
_LOGITS = "binary_cross_entropy_with_logits"
_ROUNDING = 1e-3
_LOG = "log-probabilities"


class LossActivation(GraphCheck):
    """Looks at cross entropies, and at what they are given."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield what makes something of the inputs of cross entropies."""
        for call, node in forward_calls(calls, "_log_softmax", "log_softmax"):
            feeds = any(base_type(calls.nodes[c]) in _NLL for c in readers(calls, call))
            before = _made_by(calls, call) if feeds else ""
            if before in _SOFT:
                yield Spot(call, node, before.strip("_"))
        for call, node in forward_calls(calls, _LOGITS):
            before = _made_by(calls, call)
            if before in ("sigmoid", *_SOFT[:2]):
                yield Spot(call, node, before.strip("_"))
        for call, node in forward_calls(calls, *_NLL):
            if _made_by(calls, call) not in ("_log_softmax", "log_softmax"):
                yield Spot(call, node, _LOG)

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Say what the loss expects."""
        if spot.kind == _LOG:
            row = self.input_row(step, spot.call, 0)
            if row is None or not row["count"] or not float(row["max"]) > _ROUNDING:
                return None
            return (
                f"nll_loss is given values up to {float(row['max']):.4g}, but expects "
                "log-probabilities, which are at most 0: put log_softmax before it, or use "
                "cross_entropy on the logits"
            )
        if base_type(spot.node) == _LOGITS:
            return (
                f"binary_cross_entropy_with_logits is given the output of {spot.kind}, and applies "
                "a sigmoid itself: give it the logits"
            )
        return (
            f"cross_entropy is given the output of {spot.kind}, and applies log_softmax itself: "
            "give it the logits"
        )


def _made_by(calls: Calls, call: int) -> str:
    """The operator that made the first input of a call."""
    found = maker(calls, call, 0)
    return "" if found is None else base_type(calls.nodes[found])


LOSS_ACTIVATION = Condition(
    "LA",
    "loss_activation",
    TRAINING,
    "a loss is given an activation that it applies itself, or lacks one it needs",
    training=LossActivation,
)

"""LT: targets that a loss cannot learn from: outside its range, or always the same class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.calls import Calls
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.graph_check import WRITTEN, GraphCheck, Spot, forward_calls, maker
from opscope.judge.outcome import Params
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep
from opscope.stats.record import FLOAT

_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_CLASSES = ("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d")
_ROUNDING = 1e-2
_FEW = 4
"""Fewer labels than these may well be equal."""


_MIXED = 0.1
"""Of data that is sorted by class, so few batches have more than one: where the next one begins."""


def is_constant(steps: int, params: Params) -> bool:
    """Return whether all labels have been one class for long enough."""
    return steps >= params[STEPS]


class LossTarget(GraphCheck):
    """Looks at the second input of losses."""

    def start(self) -> None:
        """Begin without having seen a label."""
        super().start()
        self._labels: dict[int, list[int | None]] = {}
        """By node: the class of all labels of each step so far, None where there were several."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield losses with targets."""
        for call, node in forward_calls(calls, *_BINARY):
            yield Spot(call, node, "binary")
        for call, node in forward_calls(calls, "mul"):
            if _weighs_log_softmax(calls, call):
                yield Spot(call, node, "shares")
        for call, node in forward_calls(calls, *_CLASSES):
            made = maker(calls, call, 1)
            # Labels that are written there are meant: the first may be the match of a contrast.
            if made is None or base_type(calls.nodes[made]) not in WRITTEN:
                yield Spot(call, node, "classes")

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Find targets outside [0, 1], and labels that are always one class."""
        row = self.input_row(step, spot.call, 1)
        if row is None or not row["count"]:
            return None
        if spot.kind == "shares":
            return self._judge_shares(row)
        if spot.kind == "classes":
            return self._judge_classes(spot, int(row["min_int"]), int(row["max_int"]), row)
        whole = bool(row["kind"] != 0)
        low, high = (float(row[f"{end}_int"] if whole else row[end]) for end in ("min", "max"))
        if low >= 0 and high <= 1:
            return None
        return (
            f"the targets of {spot.node.op_type} are from {low:g} to {high:g}, and must be from 0 "
            "to 1: its loss has no minimum then"
        )

    def _judge_shares(self, row: np.void) -> str | None:
        """Find probabilities that add up to more than 1 per sample; less may be a mask."""
        shape = self.shape(row)
        if not shape or len(shape) < 2 or row["kind"] != FLOAT:
            return None
        total = float(row["mean"]) * shape[1]
        if not total > 1 + _ROUNDING:
            return None
        return (
            f"the targets of cross_entropy add up to {total:.4g} per sample on average, but as "
            "probabilities they must add up to 1: where several classes may hold at once, use "
            "binary_cross_entropy_with_logits"
        )

    def _judge_classes(self, spot: Spot, low: int, high: int, row: np.void) -> str | None:
        labels = self._labels.setdefault(spot.node.id, [])
        labels.append(low if low == high else None)
        steps, mixed = len(labels), labels.count(None)
        if mixed > _MIXED * self.watchpoint.params[STEPS] or row["count"] < _FEW:
            self.told.add(str(spot.node.id))  # classes come together: nothing more to look for
            return None
        if not is_constant(steps, self.watchpoint.params):
            return None
        classes = len({label for label in labels if label is not None})
        if classes > 1:
            return (
                f"the labels of a batch are all of one class in {steps - mixed} of {steps} steps, "
                f"of {classes} classes in turn; expected are batches of several: the data is "
                "sorted by class, shuffle it (DataLoader(…, shuffle=True))"
            )
        if mixed:
            return None
        return (
            f"all labels have been {low} in each of {steps} steps: is the data sorted by "
            "class, or read wrongly?"
        )


def _weighs_log_softmax(calls: Calls, call: int) -> bool:
    """Tell whether a product is that of a cross entropy with targets that are probabilities."""
    of_loss = any(frame.function == "cross_entropy" for frame in calls.nodes[call].stack.frames)
    made = maker(calls, call, 0) if of_loss else None
    return made is not None and base_type(calls.nodes[made]) in ("_log_softmax", "log_softmax")


LOSS_TARGET = Condition(
    "LT",
    "loss_target",
    TRAINING,
    "targets are outside the range of their loss, or always one class",
    parameters=(Parameter(STEPS, 1, default=20.0),),
    training=LossTarget,
)

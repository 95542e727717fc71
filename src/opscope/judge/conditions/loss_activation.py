"""LA: a loss that is given what has gone through its own activation already, or lacks it."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import Node
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.graph_check import GraphCheck, Spot, forward_calls, maker
from opscope.judge.origin.walking import feeding
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep
from opscope.judge.wiring import readers
from opscope.stats.record import OUTPUT

_NLL = ("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d")
_LOG_SOFT = ("_log_softmax", "log_softmax")
_SOFT = ("_softmax", "softmax", *_LOG_SOFT)
_BOUNDED = {
    "sigmoid": "between 0 and 1",
    "hardsigmoid": "between 0 and 1",
    "tanh": "between -1 and 1",
    "relu": "never below 0",
}
"""Activations, and where that leaves logits, which may be any number."""
_LOGITS = "binary_cross_entropy_with_logits"
_PROBABILITIES = ("binary_cross_entropy", "mse_loss")
_ROUNDING = 1e-3
_LOG, _CLASSES, _SINGLE, _DIVERGENCE = "log-probabilities", "classes", "single", "divergence"
_ATTENTION = "attention"
_VIEWS = ("view", "_unsafe_view", "expand", "reshape", "clone", "_to_copy", "native_dropout", "mul")
"""Operators that leave the last dimension where it is; dropout is a product on the CPU."""


class LossActivation(GraphCheck):
    """Looks at cross entropies, and at what they are given."""

    def find(self, calls: Calls) -> Iterator[Spot]:
        """Yield what makes something of the inputs of cross entropies."""
        for call, node in forward_calls(calls, *_LOG_SOFT):
            if not any(base_type(calls.nodes[c]) in _NLL for c in readers(calls, call)):
                continue
            before = _made_by(calls, call)
            if before in (*_SOFT, *_BOUNDED):
                yield Spot(call, node, before.strip("_"))
            else:
                yield Spot(call, node, _CLASSES)
        for call, node in forward_calls(calls, _LOGITS):
            before = _made_by(calls, call)
            if before in ("sigmoid", *_SOFT[:2]):
                yield Spot(call, node, before.strip("_"))
        for call, node in forward_calls(calls, *_NLL):
            if _made_by(calls, call) not in _LOG_SOFT:
                yield Spot(call, node, _LOG)
        for call, _ in forward_calls(calls, *_PROBABILITIES):
            made = maker(calls, call, 0)
            if made is not None and base_type(calls.nodes[made]) in _SOFT[:2]:
                yield Spot(made, calls.nodes[made], _SINGLE)
        for call, _ in forward_calls(calls, "bmm"):
            made = _weights_of(calls, call)
            if made is not None:
                yield Spot(made, calls.nodes[made], _ATTENTION)
        for call, node in forward_calls(calls, "xlogy"):
            if _is_given_probabilities(calls, call):
                yield Spot(call, node, _DIVERGENCE)

    def judge(self, step: SeenStep, spot: Spot) -> str | None:
        """Say what the loss expects."""
        if spot.kind == _LOG:
            return self._judge_logarithms(step, spot)
        if spot.kind in (_CLASSES, _SINGLE):
            return self._judge_dimension(step, spot)
        if spot.kind == _ATTENTION:
            return self._judge_attention(step, spot)
        if spot.kind == _DIVERGENCE:
            return (
                "kl_div is given probabilities as its input, but expects their logarithms: use "
                "log_softmax in place of softmax (the target may stay as it is)"
            )
        if base_type(spot.node) == _LOGITS:
            return (
                f"binary_cross_entropy_with_logits is given the output of {spot.kind}, and applies "
                "a sigmoid itself: give it the logits"
            )
        if spot.kind in _BOUNDED:
            return (
                f"cross_entropy is given the output of {spot.kind}, which is "
                f"{_BOUNDED[spot.kind]}, but expects logits, which may be any number: leave the "
                "last activation out"
            )
        return (
            f"cross_entropy is given the output of {spot.kind}, and applies log_softmax itself: "
            "give it the logits"
        )

    def _judge_logarithms(self, step: SeenStep, spot: Spot) -> str | None:
        row = self.input_row(step, spot.call, 0)
        if row is None or not row["count"] or not float(row["max"]) > _ROUNDING:
            return None
        return (
            f"nll_loss is given values up to {float(row['max']):.4g}, but expects "
            "log-probabilities, which are at most 0: put log_softmax before it, or use "
            "cross_entropy on the logits"
        )

    def _judge_dimension(self, step: SeenStep, spot: Spot) -> str | None:
        """Find a softmax over one class, or over the samples."""
        shape, dim = self._over(step, spot)
        if not shape:
            return None
        self.told.add(str(spot.node.id))  # nothing more is to be seen of it later
        if shape[dim] == 1:
            return (
                f"softmax over dimension {dim} of {list(shape)}, which has one element, is always "
                "1: use a sigmoid with binary_cross_entropy_with_logits, or an output per class"
            )
        if spot.kind == _SINGLE or dim == 1 or shape != self._given_shape(step, spot):
            return None
        return (
            f"log_softmax is over dimension {dim} of {list(shape)}, but nll_loss takes dimension 1 "
            "for the classes: use dim=1, or cross_entropy on the logits"
        )

    def _judge_attention(self, step: SeenStep, spot: Spot) -> str | None:
        """Find weights of a sum that are shares along another dimension than it is over."""
        shape, dim = self._over(step, spot)
        if not shape:
            return None
        if dim >= len(shape) - 2:
            return None
        return (
            f"softmax is over dimension {dim} of {list(shape)}, but the product with the values "
            f"sums over the last one: the weights of a sum do not add up to 1; use dim=-1"
        )

    def _over(self, step: SeenStep, spot: Spot) -> tuple[tuple[int, ...], int]:
        """Return the shape of a softmax and its dimension; no shape where either is not known."""
        shape, dim = self.shape(step.row(spot.call, OUTPUT, 0)), _dimension(spot.node)
        if not shape or dim is None or not -len(shape) <= dim < len(shape):
            return (), 0
        return shape, dim % len(shape)

    def _given_shape(self, step: SeenStep, spot: Spot) -> tuple[int, ...] | None:
        """The shape of what the loss reads, which may be another view."""
        calls = step.calls
        for call in readers(calls, spot.call):
            if base_type(calls.nodes[call]) in _NLL:
                return self.shape(self.input_row(step, call, 0))
        return None


def _dimension(node: Node) -> int | None:
    try:
        return int(node.arguments.get("dim", ""))
    except ValueError:
        return None


def _weights_of(calls: Calls, call: int) -> int | None:
    """The softmax that a product reads first, through what leaves its dimensions in their order."""
    for _ in range(len(_VIEWS)):
        place = next(iter(feeding(calls, call)), None)
        if place is None:
            return None
        call, op = place[0], base_type(calls.nodes[place[0]])
        if op in _SOFT[:2]:
            return call
        if op not in _VIEWS:
            return None
    return None


def _made_by(calls: Calls, call: int) -> str:
    """The operator that made the first input of a call."""
    found = maker(calls, call, 0)
    return "" if found is None else base_type(calls.nodes[found])


def _is_given_probabilities(calls: Calls, call: int) -> bool:
    """Tell whether `t log t - t x`, which is how `kl_div` is computed, has an x made by softmax."""
    target = feeding(calls, call)[:2]
    if not any(frame.function == "kl_div" for frame in calls.nodes[call].stack.frames):
        return False
    for product, node in forward_calls(calls, "mul"):
        places = feeding(calls, product)
        same_line = node.stack.where == calls.nodes[call].stack.where
        if same_line and len(places) > 1 and target[0] in places:
            other = places.index(target[0]) ^ 1
            made = maker(calls, product, other)
            if made is not None and base_type(calls.nodes[made]) in ("sigmoid", *_SOFT[:2]):
                return True
    return False


LOSS_ACTIVATION = Condition(
    "LA",
    "loss_activation",
    TRAINING,
    "a loss is given an activation that it applies itself, or lacks one it needs",
    training=LossActivation,
)

"""LP: a loss that does not fall although gradients flow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter, support
from opscope.judge.hits import Hit
from opscope.judge.loss_series import loss_of, middle
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_FIRST, _LAST = 10, 20
_SURE = -2.0
"""A slope of so many standard errors is no accident."""


def stays(losses: Sequence[float], params: Params) -> bool:
    """Return whether losses are hardly below the first ones, and do not go on falling."""
    before, now = middle(losses[:_FIRST]), middle(losses[-_LAST:])
    has_fallen = now < (1 - params["fall_lt"]) * before
    return before > 0 and not has_fallen and _slope(losses[len(losses) // 3 :]) > _SURE


def _slope(losses: Sequence[float]) -> float:
    """The slope of a line through losses, in standard errors."""
    at = np.arange(len(losses), dtype=np.float64)
    at -= at.mean()
    values = np.array(losses) - np.mean(losses)
    slope = float((at * values).sum() / (at * at).sum())
    rest = values - slope * at
    error = math.sqrt(float((rest * rest).sum()) / (len(losses) - 2) / float((at * at).sum()))
    return slope / error if error > 0 else math.copysign(math.inf, slope) if slope else 0.0


class LossPlateau(TrainingCheck):
    """Looks at all losses, once there are enough."""

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a loss."""
        self._losses: list[float] = []

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find a loss that is where it began."""
        loss, params = loss_of(step), self.watchpoint.params
        if loss is None or self.told:
            return
        self.training.checked(self.watchpoint)
        losses = self._losses
        losses.append(loss)
        if len(losses) < params[STEPS]:
            return
        self.told.add("")  # it is asked once: a training that has converged may stay where it is
        if not stays(losses, params) or self._has_moving_targets():
            return
        message = (
            f"the loss has not fallen in {len(losses)} steps: {middle(losses[:_FIRST]):.4g} in the "
            f"first {_FIRST}, {middle(losses[-_LAST:]):.4g} in the last {_LAST}; are inputs and "
            "labels of one batch in the same order, is the learning rate too high or far too low, "
            "does the network see what it is to tell apart?"
        )
        yield self.hit_at(step, message, step.losses[0].node, step.losses[0].call)

    def _has_moving_targets(self) -> bool:
        """Tell whether losses are measured against what a network says that learns itself.

        So it is with policies that are sampled from, with teachers that follow, and with values of
        what comes after: what is hard to reach moves on.
        """
        return any(map(self.training.has_changed, self.training.asked))


LOSS_PLATEAU = Condition(
    "LP",
    "loss_plateau",
    TRAINING,
    "a loss does not fall over many steps",
    parameters=(Parameter("fall_lt", 0, 1, 0.05), support(STEPS, 30, 100.0)),
    training=LossPlateau,
)

"""LN: a loss that is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator

from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck


class LossNotFinite(TrainingCheck):
    """Looks at the losses of each step."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find losses that are not finite."""
        literal = not self.watchpoint.arriving
        for index, loss in enumerate(step.losses):
            self.training.checked(self.watchpoint)
            if not math.isfinite(loss.value) and (literal or index in step.used_losses()):
                message = (
                    f"the loss is {loss.value}; expected is a finite number: the verdict, or a "
                    "check for OO, says where it began"
                )
                yield self.hit_at(step, message, loss.node, loss.call)


LOSS_NOT_FINITE = Condition(
    "LN",
    "loss_not_finite",
    TRAINING,
    "a loss is NaN or Inf",
    nonfinite=True,
    training=LossNotFinite,
)

"""The loss of each step as one series, for conditions on how it goes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from opscope.judge.training_check import SeenStep

ERRORS = frozenset(
    (
        *("nll_loss", "nll_loss_forward", "nll_loss2d_forward", "cross_entropy_loss", "mse_loss"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss"),
        *("l1_loss", "smooth_l1_loss"),
    )
)
"""The functions that measure errors, which no training wants to grow."""


def loss_of(step: SeenStep) -> float | None:
    """Return the loss of a step, over its micro-batches; None if there are several kinds, or none.

    >>> loss_of(SeenStep(0)) is None
    True
    """
    if len(step.losses) == 1:
        value = step.losses[0].value
        return value if math.isfinite(value) else None
    values = [loss.value for loss in step.losses]
    nodes = {loss.node for loss in step.losses}
    if len(nodes) != 1 or not all(map(math.isfinite, values)):
        return None
    return statistics.fmean(values)


def middle(values: Sequence[float]) -> float:
    """Return the median of some losses."""
    return statistics.median(values)

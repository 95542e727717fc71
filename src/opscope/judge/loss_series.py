"""The loss of each step as one series, for conditions on how it goes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from opscope.judge.training_check import SeenStep


def loss_of(step: SeenStep) -> float | None:
    """Return the loss of a step, over its micro-batches; None if there are several kinds, or none.

    >>> loss_of(SeenStep(0)) is None
    True
    """
    values = [loss.value for loss in step.losses]
    nodes = {loss.node for loss in step.losses}
    if len(nodes) != 1 or not all(map(math.isfinite, values)):
        return None
    return statistics.fmean(values)


def middle(values: Sequence[float]) -> float:
    """Return the median of some losses."""
    return statistics.median(values)

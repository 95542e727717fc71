"""LS: a loss far above those of the steps before."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from opscope.judge.condition import TRAINING, Condition, Parameter, support
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck


def loss_spike(loss: float, before: Sequence[float], params: Params) -> float | None:
    """Return how far a loss is above the losses before it, if that is too far.

    In units of the spread of those losses: their median absolute deviation, but at least 5 % of
    the size of their median, so that a loss that hardly varies does not make every step a spike.
    A spike is also twice as large as any loss before it.
    """
    if before and loss <= 2.0 * before[-1] < math.inf:
        return None  # what nearly every step comes to
    usual = [value for value in before if math.isfinite(value)]
    if len(usual) < params["window_min"] or not math.isfinite(loss):
        return None
    if loss <= 2.0 * max(*usual, 0.0):
        return None
    middle = statistics.median(usual)
    deviation = statistics.median([abs(value - middle) for value in usual])
    unit = max(1.4826 * deviation, 0.05 * abs(middle), 1e-12)
    above = (loss - middle) / unit
    return above if above > params["deviations_gt"] else None


class LossSpike(TrainingCheck):
    """Keeps a window of each loss of a step."""

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a loss."""
        self._windows: dict[int, deque[float]] = {}

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find losses that jump."""
        params = self.watchpoint.params
        for index, loss in enumerate(step.losses):
            self.training.checked(self.watchpoint)
            window = self._windows.setdefault(index, deque(maxlen=int(params["window"])))
            above = loss_spike(loss.value, window, params)
            if above is not None:
                yield self.hit_at(step, _said(loss.value, above, window), loss.node, loss.call)
            window.append(loss.value)


def _said(loss: float, above: float, before: Iterable[float]) -> str:
    usual = statistics.median(filter(math.isfinite, before))
    return (
        f"the loss is {loss:.6g}, {above:.3g} deviations above its median, and expected near that, "
        f"{usual:.6g}: look at the data of this step, clip gradients, or lower the learning rate"
    )


LOSS_SPIKE = Condition(
    "LS",
    "loss_spike",
    TRAINING,
    "a loss is far above those of the steps before",
    parameters=(
        Parameter("deviations_gt", 0, default=20.0),
        support("window_min", 2, 20.0),
        support("window", 2, 100.0),
    ),
    training=LossSpike,
)

"""LD: a loss that grows from the first steps on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from opscope.judge.condition import TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.loss_series import loss_of, middle
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_STEPS = 5


def diverges(first: Sequence[float], last: Sequence[float], params: Params) -> bool:
    """Return whether the losses of late are far above the largest of the first ones."""
    limit = params["growth_gt"] * max(first)
    return max(last) > limit > 0 and middle(last) > limit


class LossDiverges(TrainingCheck):
    """Compares the last losses with the first ones."""

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a loss."""
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=_STEPS)

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find a loss that has grown far above where it began."""
        loss = loss_of(step)
        if loss is None or self.told:
            return
        self.training.checked(self.watchpoint)
        if len(self._first) < _STEPS:
            self._first.append(loss)
            return
        self._last.append(loss)
        if len(self._last) < _STEPS or not diverges(
            self._first, self._last, self.watchpoint.params
        ):
            return
        self.told.add("")
        message = (
            f"the loss diverges: {middle(self._last):.4g} in the last {_STEPS} steps, at most "
            f"{max(self._first):.4g} in the first {_STEPS}; lower the learning rate or warm it up, "
            "clip gradients, and look at the initialisation and at the sign of the loss"
        )
        yield self.hit_at(step, message, step.losses[0].node, step.losses[0].call)


LOSS_DIVERGES = Condition(
    "LD",
    "loss_diverges",
    TRAINING,
    "a loss grows from the first steps on",
    parameters=(Parameter("growth_gt", 1, default=10.0),),
    training=LossDiverges,
)

"""LO: a loss that jumps up and down from step to step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter, support
from opscope.judge.hits import Hit
from opscope.judge.loss_series import loss_of, middle
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_TURNS = 0.85
"""A random series turns in two steps of three."""


_LEVEL, _FIRST = 0.25, 5
"""Far below where the loss began, batches differ by much of it though training goes well."""


def oscillates(losses: Sequence[float], params: Params) -> bool:
    """Return whether losses go up and down in turn, by much of their size."""
    moves = [after - before for before, after in pairwise(losses)]
    turns = sum(a * b < 0 for a, b in pairwise(moves))
    size = middle([abs(loss) for loss in losses])
    jumps = middle([abs(move) for move in moves])
    return turns >= _TURNS * (len(moves) - 1) and jumps > params["jump_gt"] * size > 0


class LossOscillates(TrainingCheck):
    """Keeps a window of losses."""

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a loss."""
        self._first: list[float] = []
        self._window: deque[float] = deque(maxlen=int(self.watchpoint.params[STEPS]))

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find losses that jump to and fro."""
        loss = loss_of(step)
        if loss is None or self.told:
            return
        self.training.checked(self.watchpoint)
        window = self._window
        window.append(loss)
        if len(self._first) < _FIRST:
            self._first.append(abs(loss))
        if len(window) < (window.maxlen or 0) or not oscillates(window, self.watchpoint.params):
            return
        if middle([abs(each) for each in window]) < _LEVEL * middle(self._first):
            return
        self.told.add("")
        message = (
            f"the loss jumps up and down, from {min(window):.4g} to {max(window):.4g} in "
            f"{len(window)} steps: lower the learning rate"
        )
        yield self.hit_at(step, message, step.losses[0].node, step.losses[0].call)


LOSS_OSCILLATES = Condition(
    "LO",
    "loss_oscillates",
    TRAINING,
    "a loss jumps up and down from step to step",
    parameters=(Parameter("jump_gt", 0, default=0.5), support(STEPS, 6, 20.0)),
    training=LossOscillates,
)

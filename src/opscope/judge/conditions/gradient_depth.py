"""GD: gradients that vanish or explode from the last layer to the first."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from opscope.calls import Calls
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter, support
from opscope.judge.hits import Hit
from opscope.judge.loss_series import loss_of, middle
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.stats.record import OUTPUT

_LAYERS = 3
_EVERY = 5
_LATER = 5
"""So many times as long it must last after sound gradients: some batches teach nothing."""
_LOSSES = 5
_LEARNED = 0.5


def beyond(ratio: float, params: Params) -> bool:
    """Return whether the first layer's gradients are too small, or too large, by the last one's."""
    return ratio < params["ratio_lt"] or ratio > 1 / params["ratio_lt"]


def has_learned(first: Sequence[float], last: Sequence[float]) -> bool:
    """Return whether losses have fallen to half of what they were: the network learns all the same.

    >>> has_learned([2.0, 2.2, 1.9], [0.7, 0.9, 0.8])
    True
    """
    return bool(last) and 0 < middle(last) < _LEARNED * middle(first)


class GradientDepth(TrainingCheck):
    """Compares the gradients of the first weight of the network with those of the last.

    What has been learned leaves little to learn: a choice that has been made has hardly a slope.
    """

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen anything."""
        self._calls = Calls()
        self._ends: tuple[tuple[str, int], tuple[str, int]] | None = None
        self._since: int | None = None
        self._was_sound = False
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=_LOSSES)

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find gradients that differ too much, for long enough."""
        if self.told:
            return
        self._note_loss(step)
        if step.step % _EVERY:
            return
        if not step.calls.is_wired_like(self._calls):
            self._calls, self._ends = step.calls, self._find(step.calls)
        if self._ends is None:
            return
        self.training.checked(self.watchpoint)
        (first, at_first), (last, at_last) = self._ends
        size, other = (_size(step.row(call, OUTPUT, 0)) for call in (at_first, at_last))
        if not other or size is None or not beyond(size / other, self.watchpoint.params):
            self._was_sound |= size is not None and bool(other)
            self._since = None
            return
        self._since = step.step if self._since is None else self._since
        if step.step - self._since < self._needed() or has_learned(self._first, self._last):
            return
        vanish = size < other
        what, advice = (
            ("vanish", "use ReLU or GELU instead of sigmoid and tanh, normalise, add residuals")
            if vanish
            else ("explode", "lower the scale of the initialisation, normalise, clip gradients")
        )
        message = (
            f"gradients {what} with depth: {size:.2e} on average in {{}}, {other:.2e} in {last}, "
            f"since step {self._since}; {advice}"
        )
        yield from self.about(step, [first], message)

    def _note_loss(self, step: SeenStep) -> None:
        loss = loss_of(step)
        if loss is not None and len(self._first) < _LOSSES:
            self._first.append(loss)
        elif loss is not None:
            self._last.append(loss)

    def _needed(self) -> float:
        """For how many steps it must last."""
        return self.watchpoint.params[STEPS] * (_LATER if self._was_sound else 1)

    def _find(self, calls: Calls) -> tuple[tuple[str, int], tuple[str, int]] | None:
        """The first and the last weight in the order they are used, and their gradients' calls."""
        made = {node.gradient_of: call for call, node in enumerate(calls.nodes) if node.gradient_of}
        table = self.training.table
        names = [name for name in table.parameters if name in made and table.has_matrix(name)]
        if len(names) < _LAYERS:
            return None
        return (names[0], made[names[0]]), (names[-1], made[names[-1]])


def _size(row: np.void | None) -> float | None:
    """The root mean square of a gradient."""
    if row is None or not row["count"]:
        return None
    size = float(row["l2"]) / math.sqrt(int(row["count"]))
    return size if math.isfinite(size) else None


GRADIENT_DEPTH = Condition(
    "GD",
    "gradient_depth",
    TRAINING,
    "gradients vanish or explode with depth",
    parameters=(Parameter("ratio_lt", 0, 1, 1e-5, above=True), support(STEPS, 0, 10.0)),
    training=GradientDepth,
)

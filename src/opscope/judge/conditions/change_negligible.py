"""NC: weights that change, but by next to nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter, support
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_NUMBERS = ("l2", "mean_abs", "min", "max")


def change_of(now: np.void, before: np.void) -> float:
    """Return how far the numbers of a weight have moved, as a fraction."""
    moved = 0.0
    for name in _NUMBERS:
        a, b = float(now[name]), float(before[name])
        moved = max(moved, abs(a - b) / max(abs(a), abs(b), 1e-30)) if a != b else moved
    return moved


def is_negligible(largest: float, params: Params) -> bool:
    """Return whether the largest change is some, but next to none."""
    return 0 < largest < params["change_lt"]


class ChangeNegligible(TrainingCheck):
    """Compares weights with what they were some steps ago."""

    needs_facts = True
    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen anything."""
        self._before: dict[str, np.void] = {}
        self._since = 0

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find trainings in which every weight stays next to where it was."""
        params = self.watchpoint.params
        if self.told or (self._before and step.step < self._since + params[STEPS]):
            return
        before, since = self._before, self._since
        self._before, self._since = self._weights(), step.step
        self.training.checked(self.watchpoint, len(self._before))
        moved = [change_of(row, before[n]) for n, row in self._before.items() if n in before]
        if not moved or not is_negligible(max(moved), params):
            return
        names = [name for name in self._before if name in before]
        message = (
            f"hardly changed, by {max(moved):.1e} of their size at most in {step.step - since} "
            "steps: {}; the learning rate is far too small, or rounding eats the updates"
        )
        yield from self.about(step, names, message)

    def _weights(self) -> dict[str, np.void]:
        training = self.training
        found = zip(training.uses[0].tolist(), training.uses[1], strict=True)
        named = ((training.table.parameters[number], row) for number, row in found)
        return {n: r for n, r in named if training.is_trained(n) and training.table.has_matrix(n)}


CHANGE_NEGLIGIBLE = Condition(
    "NC",
    "change_negligible",
    TRAINING,
    "all weights change by next to nothing",
    parameters=(Parameter("change_lt", 0, 1, 1e-6), support(STEPS, 1, 20.0)),
    training=ChangeNegligible,
)

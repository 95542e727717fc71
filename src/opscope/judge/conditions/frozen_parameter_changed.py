"""FC: a frozen parameter that changes."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck


class FrozenParameterChanged(TrainingCheck):
    """Looks at parameters that are meant to stay as they are."""

    needs_facts = True

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find those that do not."""
        training = self.training
        training.checked(self.watchpoint, len(training.facts))
        changed = training.history.changed
        names = [
            name
            for name, fact in training.facts.items()
            if fact.frozen
            and fact.owned
            and name not in self.told
            and (number := training.table.number_of(name)) is not None
            and number < len(changed)
            and changed[number]
        ]
        if not names:
            return
        # It must have been frozen as the update was made, in the step before, and be so still.
        then, now = (training.frozen_in.get(at) for at in training.compared)
        if then is None or now is None:
            training.ask_until = step.step + 3
            return
        names = [name for name in names if name in then and name in now]
        message = (
            "meant to be frozen, but changed: {}; `requires_grad = False` on a module does "
            "nothing (requires_grad_(False) does), and an optimizer goes on with momentum, weight "
            "decay and old gradients"
        )
        yield from self.about(step, names, message)


FROZEN_PARAMETER_CHANGED = Condition(
    "FC",
    "frozen_parameter_changed",
    TRAINING,
    "a frozen parameter changes",
    training=FrozenParameterChanged,
)

"""PO: a parameter with gradients that no optimizer owns."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck


def without_optimizer(has_gradient: bool, owned: bool, steps_seen: int, params: Params) -> bool:
    """Return whether a parameter has gradients that no optimizer uses, for long enough."""
    return has_gradient and not owned and steps_seen >= params[STEPS]


class ParameterWithoutOptimizer(TrainingCheck):
    """Looks at what training does with its parameters."""

    needs_facts = True

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find parameters that are never trained."""
        training = self.training
        training.checked(self.watchpoint, len(training.facts))
        names = [
            name
            for name, steps in training.with_gradient.items()
            if without_optimizer(True, training.facts[name].owned, steps, self.watchpoint.params)
        ]
        message = (
            "gradients, but no optimizer, so never trained: {}; make the optimizer after the last "
            "layer, and keep layers in an nn.ModuleList rather than a list"
        )
        yield from self.about(step, names, message)


PARAMETER_WITHOUT_OPTIMIZER = Condition(
    "PO",
    "parameter_without_optimizer",
    TRAINING,
    "a parameter has gradients, but no optimizer owns it",
    parameters=(Parameter(STEPS, 1, default=5.0),),
    training=ParameterWithoutOptimizer,
)

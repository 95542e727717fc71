"""PG: a parameter of an optimizer that never gets a gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_PATIENCE = 10
"""One of several layers that are alike may be asked rarely: it has so many times as many steps."""


def without_gradient(steps_without: int, steps_seen: int, params: Params) -> bool:
    """Return whether a parameter has never had a gradient, for long enough."""
    return steps_seen >= params[STEPS] and steps_without == steps_seen


class ParameterWithoutGradient(TrainingCheck):
    """Looks at what training does with its parameters."""

    needs_facts = True

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find parameters that no gradient reaches."""
        training = self.training
        training.checked(self.watchpoint, len(training.facts))
        names = [
            name
            for name, without in training.without_gradient.items()
            if without_gradient(without, training.owned_steps[name], self.watchpoint.params)
        ]
        if not names:
            return
        owned = [name for name, fact in training.facts.items() if fact.owned]
        if len(names) == len(owned):
            message = (
                "no gradient has reached any of {}: the optimizer trains nothing; does zero_grad() "
                "come between backward() and step(), or was the model made anew after it?"
            )
            yield from self.about(step, names, message)
        else:
            rare = self._rarely_asked(names, owned) if self._is_early(step) else set()
            trainable = [n for n in names if not training.facts[n].frozen and n not in rare]
            message = (
                "in an optimizer, but no gradient has ever come: {}; is the layer used, and does "
                "detach(), no_grad() or NumPy cut it off from the loss?"
            )
            yield from self.about(step, trainable, message)

    def _is_early(self, step: SeenStep) -> bool:
        return step.step < _PATIENCE * self.watchpoint.params[STEPS]

    def _rarely_asked(self, names: Sequence[str], owned: Sequence[str]) -> set[str]:
        """Find those that nothing has read yet, though one of the same list has been trained.

        So it is with an expert that no element of a batch was sent to.
        """
        places = {place for name in set(owned).difference(names) for place in _places(name)}
        read = set(self.training.table.parameters)
        return {n for n in names if n not in read and not places.isdisjoint(_places(n))}


def _places(name: str) -> Iterator[tuple[str, ...]]:
    """Yield a name with each of its numbers left out: what is alike in a list shares one."""
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            yield (*parts[:index], "", *parts[index + 1 :])


PARAMETER_WITHOUT_GRADIENT = Condition(
    "PG",
    "parameter_without_gradient",
    TRAINING,
    "an optimizer's parameter never gets a gradient",
    parameters=(Parameter(STEPS, 1, default=20.0),),
    training=ParameterWithoutGradient,
)

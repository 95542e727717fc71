"""PU: a trainable parameter that never changes, or all of them no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck


def never_changes(steps_unchanged: int, steps_seen: int, params: Params) -> bool:
    """Return whether a parameter has had one value since it was first seen, for long enough."""
    return steps_seen >= params[STEPS] and steps_unchanged == steps_seen


def has_stopped(steps_unchanged: int, params: Params) -> bool:
    """Return whether a parameter has had one value for long enough now."""
    return steps_unchanged >= params[STEPS]


class ParameterUnchanged(TrainingCheck):
    """Looks at how parameters have fared over the steps."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find parameters that are trained and stay as they are."""
        training, params = self.training, self.watchpoint.params
        seen, changed = training.history.seen, training.history.changed_ever
        known = training.table.parameters[: len(seen)]
        training.checked(self.watchpoint, len(known))
        if not len(seen) or seen.max() < params[STEPS]:
            return
        if changed.all():
            yield from self._stopped(step, known)
            return
        names = [
            name
            for number in np.flatnonzero(~changed).tolist()
            if never_changes(int(seen[number]), int(seen[number]), params)
            and training.is_trained(name := known[number])
        ]
        trained = [name for name in known if training.is_trained(name)]
        if names and len(names) == len(trained):
            message = (
                "none of {} has changed in "
                f"{int(params[STEPS])} steps: is the learning rate 0, are these the "
                "parameters that the optimizer has, does it step at all?"
            )
        else:
            # A bias may have a gradient that is 0 by nature, where it cancels out.
            names = [name for name in names if training.table.has_matrix(name)]
            message = f"never changed in {int(params[STEPS])} steps of training: {{}}"
        yield from self.about(step, names, message)

    def _stopped(self, step: SeenStep, known: Sequence[str]) -> Iterator[Hit]:
        """Find that nothing changes any more, as when a schedule has come to 0."""
        still, params = self.training.history.still, self.watchpoint.params
        if not has_stopped(int(still.max()), params):
            return
        every = zip(known, still.tolist(), strict=True)
        trained = [(name, steps) for name, steps in every if self.training.is_trained(name)]
        if trained and all(has_stopped(steps, params) for _, steps in trained):
            since = step.step - min(steps for _, steps in trained)
            message = (
                f"none of {{}} has changed since step {since}: has a schedule brought the learning "
                "rate to 0?"
            )
            yield from self.about(step, [name for name, _ in trained], message)


PARAMETER_UNCHANGED = Condition(
    "PU",
    "parameter_unchanged",
    TRAINING,
    "a trainable parameter never changes",
    parameters=(Parameter(STEPS, 1, default=20.0),),
    training=ParameterUnchanged,
)

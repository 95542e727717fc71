"""PU: a trainable parameter that never changes, or no longer does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck

_ALONE = 2
"""A single parameter that stops is looked at after so many times as many steps as all of them."""


def never_changes(steps_unchanged: int, steps_seen: int, params: Params) -> bool:
    """Return whether a parameter has had one value since it was first seen, for long enough."""
    return steps_seen >= params[STEPS] and steps_unchanged == steps_seen


def has_stopped(steps_unchanged: int, params: Params) -> bool:
    """Return whether a parameter has had one value for long enough now."""
    return steps_unchanged >= params[STEPS]


class ParameterUnchanged(TrainingCheck):
    """Looks at how parameters have fared over the steps."""

    def start(self) -> None:
        """Begin with every parameter still changing."""
        self._waiting: dict[str, tuple[int, int]] = {}
        """By parameter that has stopped: since when its optimizer is looked at, and its updates."""
        self._skipped = 0

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find parameters that are trained and stay as they are."""
        training, params = self.training, self.watchpoint.params
        yield from self._withheld(step)
        if training.history.all_changed:
            training.checked(self.watchpoint, len(training.history.seen))
            self._waiting.clear()
            return
        seen, changed = training.history.seen, training.history.changed_ever
        known = training.table.parameters[: len(seen)]
        training.checked(self.watchpoint, len(known))
        if not len(seen) or seen.max() < params[STEPS]:
            return
        yield from self._stopped(step, known)
        if changed.all():
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
            message = (
                f"never changed in {int(params[STEPS])} steps of training: {{}}; is its learning "
                "rate or its gradient 0, or does detach() or no_grad() cut it off from the loss?"
            )
        yield from self.about(step, names, message)

    def _withheld(self, step: SeenStep) -> Iterator[Hit]:
        """Find that a gradient scaler withholds every update."""
        self._skipped = self._skipped + 1 if step.skipped else 0
        if self._skipped == int(self.watchpoint.params[STEPS]):
            message = (
                f"the gradient scaler has skipped each of the last {self._skipped} updates, since "
                "gradients are not finite; expected are a few at the start: the scale does not "
                "fall fast enough, or the gradients are infinite whatever it is"
            )
            loss = step.losses[-1] if step.losses else None
            yield self.hit_at(step, message, loss.node if loss else None)

    def _stopped(self, step: SeenStep, known: Sequence[str]) -> Iterator[Hit]:
        """Find that nothing changes any more, as when a schedule has come to 0."""
        history, params = self.training.history, self.watchpoint.params
        if not has_stopped(int(history.still.max()), params):
            self._waiting.clear()
            return
        every = zip(known, history.still.tolist(), strict=True)
        trained = {name: steps for name, steps in every if self.training.is_trained(name)}
        if not all(has_stopped(steps, params) for steps in trained.values()):
            yield from self._stopped_alone(step, trained)
        elif trained and history.changed_ever.all():
            message = (
                f"none of {{}} has changed since step {step.step - min(trained.values())}: has a "
                "schedule brought the learning rate to 0?"
            )
            yield from self.about(step, list(trained), message)

    def _stopped_alone(self, step: SeenStep, still: Mapping[str, int]) -> Iterator[Hit]:
        """Find parameters that no longer change, while others do and their optimizer steps."""
        training, params = self.training, self.watchpoint.params
        stopped = [n for n, steps in still.items() if steps >= _ALONE * params[STEPS]]
        stopped = [n for n in stopped if training.table.has_matrix(n) and training.has_changed(n)]
        self._waiting = {n: self._waiting[n] for n in stopped if n in self._waiting}
        for name in stopped:
            if name not in self._waiting:
                self._waiting[name] = step.step, training.owned_steps.get(name, 0)
                training.ask_until = max(training.ask_until, step.step + int(params[STEPS]))
        ready = []
        for name, (since, owned) in self._waiting.items():
            updates = training.owned_steps.get(name, 0) - owned
            if step.step - since >= params[STEPS] and 2 * updates >= params[STEPS]:
                ready.append(name)
        if ready:
            message = (
                f"no longer changed since step {step.step - still[ready[0]]}, though its optimizer "
                "goes on: {}; has it been detached, or is its gradient or its learning rate 0?"
            )
            yield from self.about(step, ready, message)


PARAMETER_UNCHANGED = Condition(
    "PU",
    "parameter_unchanged",
    TRAINING,
    "a trainable parameter never changes, or no longer",
    parameters=(Parameter(STEPS, 1, default=20.0),),
    training=ParameterUnchanged,
)

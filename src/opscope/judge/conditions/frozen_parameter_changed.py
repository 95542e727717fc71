"""FC: a frozen parameter that changes."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import SETUP_GRAPH
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.origin.writing import PARAMETER, written
from opscope.judge.training_check import SeenStep, TrainingCheck


class FrozenParameterChanged(TrainingCheck):
    """Looks at parameters that are meant to stay as they are."""

    needs_facts = True

    def start(self) -> None:
        """Begin without having seen a step."""
        self._calls = Calls()

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find those that do not."""
        training, before = self.training, self._calls
        self._calls = step.calls
        training.checked(self.watchpoint, len(training.facts))
        changed = training.history.changed
        names = [
            name
            for name in training.frozen
            if name not in self.told
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
        by_optimizer, otherwise = _writes(before, step.calls)
        names = [name for name in names if name in then and name in now]
        names = [name for name in names if name in by_optimizer and name not in otherwise]
        message = (
            "meant to be frozen, but changed: {}; `requires_grad = False` on a module does "
            "nothing (requires_grad_(False) does), and an optimizer goes on with momentum, weight "
            "decay and old gradients"
        )
        yield from self.about(step, names, message)


def _writes(*steps: Calls) -> tuple[set[str], set[str]]:
    """The parameters that optimizers wrote in some steps, and those that something else did.

    Whoever writes to one by hand, as to a teacher that is an average, means to.
    """
    found: tuple[set[str], set[str]] = set(), set()
    for calls in steps:
        for call, node in enumerate(calls.nodes):
            if node.graph == SETUP_GRAPH or not node.op_type.endswith("_"):
                continue
            for slot in range(max(1, len(node.outputs))):
                what = written(calls, call, slot)
                if what is not None and what.kind == PARAMETER:
                    found["optimizer-" not in node.scope].add(what.name)
    return found


FROZEN_PARAMETER_CHANGED = Condition(
    "FC",
    "frozen_parameter_changed",
    TRAINING,
    "a frozen parameter changes",
    training=FrozenParameterChanged,
)

"""GU: gradients of whole backward passes that nothing uses before they are cleared."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.origin.walking import feeding
from opscope.judge.training_check import SeenStep, TrainingCheck

_CLEARING = ("zero_", "_foreach_zero_", "zero")


class GradientUnused(TrainingCheck):
    """Looks for gradients that are made again before anything has read them.

    Of all parameters: what one network of several gets on the way to another is often not used.
    """

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a step."""
        self._calls = Calls()
        self._lost: dict[str, list[int]] = {}
        self._steps = 0

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find passes that are lost, step after step."""
        calls = step.calls
        if not calls.is_wired_like(self._calls):
            self._calls, self._lost = calls, lost_gradients(calls)
        self.training.checked(self.watchpoint)
        self._steps = self._steps + 1 if self._lost else 0
        if self._steps < self.watchpoint.params[STEPS]:
            return
        lost = self._lost
        message = (
            f"{max(map(len, lost.values()))} times in each of {self._steps} steps, the gradients "
            "of {} are cleared before anything has used them; expected is one "
            "optimizer.zero_grad() per update: is it in the loop over micro-batches?"
        )
        nodes = {name: calls.nodes[found[0]] for name, found in lost.items()}
        yield from self.about(step, list(lost), message, nodes)


def lost_gradients(calls: Calls) -> dict[str, list[int]]:
    """Return by parameter the calls whose gradients are lost; none unless every parameter's are."""
    made: dict[str, list[int]] = {}
    for call, node in enumerate(calls.nodes):
        if node.gradient_of:
            made.setdefault(node.gradient_of, []).append(call)
    if not made or min(map(len, made.values())) < 2:
        return {}
    read = _read(calls)
    lost = {name: [c for c in found[:-1] if c not in read] for name, found in made.items()}
    is_used = all(found[-1] in read for found in made.values())
    return lost if is_used and all(lost.values()) else {}


def _read(calls: Calls) -> set[int]:
    """The calls whose outputs something reads, other than to clear them."""
    return {
        place[0]
        for call, node in enumerate(calls.nodes)
        if node.op_type not in _CLEARING
        for place in feeding(calls, call)
        if place is not None
    }


GRADIENT_UNUSED = Condition(
    "GU",
    "gradient_unused",
    TRAINING,
    "gradients are cleared before anything uses them",
    parameters=(Parameter(STEPS, 1, default=5.0),),
    training=GradientUnused,
)

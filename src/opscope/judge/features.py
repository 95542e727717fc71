"""Asks conditions on features of the data about those that are looked at."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.events import FeatureFact, Node
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck

PRODUCTS = ("addmm", "mm", "bmm", "linear")
"""Layers whose inputs have features."""
STEPS_SEEN = 20
MOST_FEATURES = 512
"""Of wider inputs, such as flat images, some features may well never vary."""


class FeatureCheck(TrainingCheck):
    """Judges each input once, when it is known what its features are like."""

    needs_features = True

    def judge(self, fact: FeatureFact) -> str | None:
        """Return what is wrong, if something is."""
        raise NotImplementedError

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Judge what has become known."""
        for fact in self.training.features:
            key = f"{fact.node}:{fact.slot}"
            if key in self.told:
                continue
            self.told.add(key)
            self.training.checked(self.watchpoint)
            node = _node(step, fact.node)
            message = self.judge(fact)
            if message is not None and node is not None and not self.is_left_alone(node):
                yield self.hit_at(step, message, node, step.calls.nodes.index(node))


def _node(step: SeenStep, number: int) -> Node | None:
    return next((node for node in step.calls.nodes if node.id == number), None)

"""ED: an evaluation that runs with dropout on."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import Node, Phase
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck


class EvaluationDiffers(TrainingCheck):
    """Looks at dropout that runs both with and without gradients being recorded."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find dropout in what is no training."""
        training = self.training
        training.checked(self.watchpoint, len(training.dropout_nodes))
        for scope, node in training.dropout_nodes.items():
            both = len(training.dropouts[scope]) == 2
            if scope in self.told or not both or training.table.is_ignored(node):
                continue
            if node.phase is Phase.FORWARD and _is_trained_on(node, step.calls):
                continue
            self.told.add(scope)
            message = (
                f"dropout is on in an evaluation ({node.scope}): two passes over the same "
                "batch differ; call model.eval(), or give F.dropout training=self.training"
            )
            yield self.hit_at(step, message, node)


def _is_trained_on(node: Node, calls: Calls) -> bool:
    """Whether a gradient comes of what a node made, as of samples for a critic, or it did not run.

    That is no evaluation, though no gradients are recorded of the node itself.
    """
    reached: set[int | None] = set()
    for call, later in enumerate(calls.nodes):
        slots = range(len(later.sources)) if reached else ()
        if later is node or any(calls.producer(call, slot) in reached for slot in slots):
            reached.add(call)
            if later.phase is Phase.BACKWARD:
                return True
    return not reached


EVALUATION_DIFFERS = Condition(
    "ED",
    "evaluation_differs",
    TRAINING,
    "an evaluation runs with dropout on",
    training=EvaluationDiffers,
)

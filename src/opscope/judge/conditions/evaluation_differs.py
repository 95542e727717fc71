"""ED: an evaluation that runs with dropout on, or with batch norm in train mode."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import Node, Output, Phase
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.modes import is_batch_norm
from opscope.judge.training_check import SeenStep, TrainingCheck

_DROPOUT = (
    "dropout is on in an evaluation ({scope}): two passes over the same batch differ; call "
    "model.eval(), or give F.dropout training=self.training"
)
_BATCH_NORM = (
    "batch norm is in train mode in an evaluation ({scope}): results depend on what else is in the "
    "batch, and the running statistics learn from it; call model.eval()"
)


class EvaluationDiffers(TrainingCheck):
    """Looks at dropout and batch norm that run both with and without gradients being recorded."""

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
            message = _BATCH_NORM if is_batch_norm(node) else _DROPOUT
            message = message.format(scope=node.scope)
            yield self.hit_at(step, message, node)


def _is_trained_on(node: Node, calls: Calls) -> bool:
    """Tell whether what a node made leads to a gradient, as for a critic, or it did not run.

    That is no evaluation, though no gradients are recorded of the node itself.
    """
    reached: set[int | None] = set()
    for call, later in enumerate(calls.nodes):
        slots = range(len(later.sources)) if reached else ()
        if later is node or any(_reads(calls, call, slot) in reached for slot in slots):
            reached.add(call)
            if later.phase is Phase.BACKWARD:
                return True
    return not reached


def _reads(calls: Calls, call: int, slot: int) -> int | None:
    """The call whose result an input is; running statistics are none."""
    source = calls.sources_of(call)[slot : slot + 1]
    is_result = source and isinstance(source[0], Output) and source[0].slot == 0
    return calls.producer(call, slot) if is_result else None


EVALUATION_DIFFERS = Condition(
    "ED",
    "evaluation_differs",
    TRAINING,
    "an evaluation runs in train mode",
    training=EvaluationDiffers,
)

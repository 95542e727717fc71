"""ED: an evaluation that is not of the network as it is trained.

It runs with dropout on, with batch norm in train mode, or by statistics that were never learned.
"""

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


_STANDS_STILL = (
    "an evaluation uses running statistics that training leaves as they began: momentum=0 of the "
    "batch norm {scope}; expected is more than 0, mostly 0.1"
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
        yield from self._find_still(step)

    def _find_still(self, step: SeenStep) -> Iterator[Hit]:
        """Find evaluations by statistics that no step has changed."""
        training = self.training
        for scope, node in training.evaluated_norms.items():
            if training.norms.get(scope) != {True} or scope in self.told:
                continue
            self.told.add(scope)
            if not training.table.is_ignored(node):
                yield self.hit_at(step, _STANDS_STILL.format(scope=scope), node)


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

"""TE: training that goes on in eval mode after an evaluation, or has been in it all along."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.calls import Calls
from opscope.events import TRAINING_GRAPH, Node, Phase
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.modes import is_batch_norm, is_dropout
from opscope.judge.outcome import Params
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.stats.record import OUTPUT

_ALONG = 4
"""A network that has been in eval mode all along is told of after so many times as many steps."""


def lasts(steps: int, params: Params) -> bool:
    """Return whether it has gone on for long enough."""
    return steps >= params[STEPS]


class TrainingInEvalMode(TrainingCheck):
    """Looks at whether dropout and batch norm are at work in steps that train."""

    def start(self) -> None:
        """Begin without having seen anything."""
        self._calls = Calls()
        self._dropouts = 0
        self._norms: list[int] = []
        self._trains = self._evaluates = False
        self._known: dict[str, Node] = {}
        """By scope: what has been in train mode."""
        self._evaluated = False
        self._off = 0

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find steps that train without what was at work before an evaluation."""
        if not step.calls.is_wired_like(self._calls):
            self._look(step.calls)
        self._evaluated |= self._evaluates
        if not self._trains or self.told:
            return
        self.training.checked(self.watchpoint)
        if self.training.in_eval:
            yield from self._never_in_train_mode(step)
        norm = next((call for call in self._norms if _uses_batch(step, call)), None)
        if self._dropouts or norm is not None:
            self._off, self._evaluated = 0, False
            if norm is not None:
                node = step.calls.nodes[norm]
                self._known.setdefault(node.scope, node)
            return
        if not self._known or not self._evaluated:
            return
        self._off += 1
        if lasts(self._off, self.watchpoint.params):
            self.told.add("")
            yield self.hit_at(step, self._message(step.step), next(iter(self._known.values())))

    def _never_in_train_mode(self, step: SeenStep) -> Iterator[Hit]:
        """Find networks that are trained in eval mode from the first update on."""
        training = self.training
        names = [
            name
            for name, steps in training.in_eval.items()
            if lasts(steps, {STEPS: _ALONG * self.watchpoint.params[STEPS]})
            and steps == training.owned_steps[name]
            and training.facts[name].has_gradient
        ]
        message = (
            "trained in eval mode from the start: {}; dropout is off and batch norm keeps its old "
            "statistics: call model.train() before training (from_pretrained leaves models in "
            "eval mode)"
        )
        yield from self.about(step, names, message)

    def _message(self, step: int) -> str:
        scopes = ", ".join(list(self._known)[:3])
        return (
            f"training goes on in eval mode: dropout and batch norm ({scopes}) were at work before "
            f"an evaluation, and have been off since step {step - self._off + 1}; call "
            "model.train() after the evaluation"
        )

    def _look(self, calls: Calls) -> None:
        self._calls, self._dropouts, self._norms = calls, 0, []
        self._trains = any(node.phase is Phase.BACKWARD for node in calls.nodes)
        self._evaluates = any(node.phase is Phase.EVAL for node in calls.nodes)
        for call, node in enumerate(calls.nodes):
            if node.graph != TRAINING_GRAPH or not node.with_grad:
                continue
            if node.phase is Phase.FORWARD and is_dropout(node):
                self._dropouts += 1
                self._known.setdefault(node.scope, node)
            elif node.phase is Phase.FORWARD and is_batch_norm(node):
                self._norms.append(call)


def _uses_batch(step: SeenStep, call: int) -> bool:
    """Tell whether a batch norm has computed statistics of the batch: in eval mode it has none."""
    row = step.row(call, OUTPUT, 1)
    return row is not None and int(row["count"]) > 0


TRAINING_IN_EVAL_MODE = Condition(
    "TE",
    "training_in_eval_mode",
    TRAINING,
    "training goes on in eval mode",
    parameters=(Parameter(STEPS, 1, default=5.0),),
    training=TrainingInEvalMode,
)

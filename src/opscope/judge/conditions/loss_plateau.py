"""LP: a loss that does not fall although gradients flow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from opscope.calls import Calls
from opscope.judge.condition import STEPS, TRAINING, Condition, Parameter, support
from opscope.judge.graph_check import forward_calls
from opscope.judge.hits import Hit
from opscope.judge.loss_series import ERRORS, loss_of, middle
from opscope.judge.outcome import Params
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.stats.record import OUTPUT

_FIRST, _LAST = 10, 20
_SURE = -2.0
"""A slope of so many standard errors is no accident."""


def stays(losses: Sequence[float], params: Params) -> bool:
    """Return whether losses are hardly below the first ones, and do not go on falling."""
    before, now = middle(losses[:_FIRST]), middle(losses[-_LAST:])
    has_fallen = now < (1 - params["fall_lt"]) * before
    return before > 0 and not has_fallen and _slope(losses[len(losses) // 3 :]) > _SURE


def _slope(losses: Sequence[float]) -> float:
    """The slope of a line through losses, in standard errors."""
    at = np.arange(len(losses), dtype=np.float64)
    at -= at.mean()
    values = np.array(losses) - np.mean(losses)
    slope = float((at * values).sum() / (at * at).sum())
    rest = values - slope * at
    error = math.sqrt(float((rest * rest).sum()) / (len(losses) - 2) / float((at * at).sum()))
    return slope / error if error > 0 else math.copysign(math.inf, slope) if slope else 0.0


_ADVICE = (
    "are inputs and labels of one batch in the same order, is the learning rate too high or far "
    "too low, does the network see what it is to tell apart?"
)
_PENALTY = "the rest has: is a penalty so strong that nothing else is learned?"


def _said(what: str, losses: Sequence[float], advice: str) -> str:
    return (
        f"{what} has not fallen in {len(losses)} steps: {middle(losses[:_FIRST]):.4g} in the "
        f"first {_FIRST}, {middle(losses[-_LAST:]):.4g} in the last {_LAST}; {advice}"
    )


class LossPlateau(TrainingCheck):
    """Looks at all losses, once there are enough.

    Of a sum, the part that measures errors is looked at as well: a penalty may win over it.
    """

    ignores_skipped = True

    def start(self) -> None:
        """Begin without having seen a loss."""
        self._losses: list[float] = []
        self._errors: list[float] = []
        self._calls = Calls()
        self._parts: list[int] = []
        """The calls that measure errors, if they are those of one function."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find a loss that is where it began."""
        loss, params = loss_of(step), self.watchpoint.params
        if loss is None or self.told:
            return
        self.training.checked(self.watchpoint)
        self._losses.append(loss)
        self._errors += self._error(step)
        if len(self._losses) < params[STEPS]:
            return
        self.told.add("")  # it is asked once: a training that has converged may stay where it is
        if self._has_moving_targets():
            return
        if stays(self._losses, params):
            said = _said("the loss", self._losses, _ADVICE)
            yield self.hit_at(step, said, step.losses[0].node, step.losses[0].call)
        elif len(self._errors) == len(self._losses) and stays(self._errors, params):
            node = step.calls.nodes[self._parts[0]]
            what = f"{base_type(node)}, which is a part of the loss,"
            yield self.hit_at(step, _said(what, self._errors, _PENALTY), node, self._parts[0])

    def _error(self, step: SeenStep) -> list[float]:
        """The part of the loss of a step that measures errors, if it has one, of one function."""
        calls = step.calls
        if not calls.is_wired_like(self._calls):
            found = [call for call, _ in forward_calls(calls, *ERRORS)]
            nodes = {calls.nodes[call] for call in found} - {loss.node for loss in step.losses}
            self._calls, self._parts = calls, found if len(nodes) == 1 else []
        rows = [step.row(call, OUTPUT, 0) for call in self._parts]
        values = [float(row["max"]) for row in rows if row is not None and row["count"] == 1]
        return [fmean(values)] if values and len(values) == len(rows) else []

    def _has_moving_targets(self) -> bool:
        """Tell whether losses are measured against what a network says that learns itself.

        So it is with policies that are sampled from, with teachers that follow, and with values of
        what comes after: what is hard to reach moves on.
        """
        return any(map(self.training.has_changed, self.training.asked))


LOSS_PLATEAU = Condition(
    "LP",
    "loss_plateau",
    TRAINING,
    "a loss does not fall over many steps",
    parameters=(Parameter("fall_lt", 0, 1, 0.05), support(STEPS, 30, 100.0)),
    training=LossPlateau,
)

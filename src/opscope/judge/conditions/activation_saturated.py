"""AS: a tanh or sigmoid so far out that its derivative vanishes."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import ACTIVATION, LASTING, Check, Condition, Parameter
from opscope.judge.numbers import Floats, NumberColumns
from opscope.judge.outcome import CHECKED, EMPTY, ONLY_NAN, Measured, Outcome, Params, any_of


def saturated_tanh(n: NumberColumns, params: Params) -> Outcome:
    """Find tanhs whose mean derivative, 1 - y², is next to nothing."""
    return any_of(n, params, {"derivative_lt": (_tanh_derivative, np.less)})


def saturated_sigmoid(n: NumberColumns, params: Params) -> Outcome:
    """Find sigmoids whose mean derivative, y·(1 - y), is next to nothing."""
    return any_of(n, params, {"derivative_lt": (_sigmoid_derivative, np.less)})


def check_saturated(op_type: str) -> Check:
    """Return the check of one kind of activation."""
    return saturated_tanh if "tanh" in op_type else saturated_sigmoid


def _tanh_derivative(n: NumberColumns) -> Measured:
    return _derivative(n, np.ones(len(n)))


def _sigmoid_derivative(n: NumberColumns) -> Measured:
    return _derivative(n, n.mean)


def _derivative(n: NumberColumns, first: Floats) -> Measured:
    with np.errstate(divide="ignore", invalid="ignore"):
        actual = np.maximum(first - n.l2**2 / n.finite, 0.0)  # rounding may take it below
    nothing = np.where(n.count == 0, EMPTY, np.where(n.finite == 0, ONLY_NAN, CHECKED))
    return Measured(actual, nothing.astype(np.uint8))


ACTIVATION_SATURATED = Condition(
    "AS",
    "activation_saturated",
    ACTIVATION,
    "a tanh or sigmoid is so far out that its derivative vanishes",
    parameters=(Parameter("derivative_lt", 0, 1, 1e-6), LASTING),
    check_of=check_saturated,
    op_types=frozenset(("tanh", "sigmoid")),
    advice="its inputs are far from 0: normalise before it, or begin with smaller weights",
)

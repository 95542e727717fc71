"""WNC: a weight that is as it was in the step before."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import MAY_LAST, WEIGHT, Condition, Parameter, support
from opscope.judge.measures import without_previous
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Outcome, Params, certain

RTOL, ATOL = 1e-5, 1e-8
"""The tolerances unless told otherwise; they are applied where two tensors are compared."""


def not_changed(n: NumberColumns, params: Params) -> Outcome:
    """Find weights of which every element is within atol + rtol·|before| of the step before."""
    reasons = without_previous(n)
    if n.change is None:
        return certain(np.zeros(len(n), bool), reasons)
    return certain(n.change.outside == 0, reasons, outside=n.change.outside)


WEIGHT_NOT_CHANGED = Condition(
    "WNC",
    "weight_not_changed",
    WEIGHT,
    "a weight is as it was in the step before",
    not_changed,
    (
        Parameter("rtol", 0, default=RTOL),
        support("atol", 0, ATOL),
        support("equal_nan", 0, 0.0),
        MAY_LAST,
    ),
    needs_change=True,
    advice="is it frozen, without a gradient, or is its learning rate 0?",
)

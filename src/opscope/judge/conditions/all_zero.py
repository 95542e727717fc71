"""TZ: too much of a tensor is zero."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import MAY_LAST, TENSOR, Condition, percent
from opscope.judge.measures import zero_percentage
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Outcome, Params, any_of


def all_zero(n: NumberColumns, params: Params) -> Outcome:
    """Find values with too many zeros."""
    return any_of(n, params, {"zero_percentage_ge": (zero_percentage, np.greater_equal)})


TENSOR_ALL_ZERO = Condition(
    "TZ",
    "tensor_all_zero",
    TENSOR,
    "too much of a tensor is zero",
    all_zero,
    (percent("zero_percentage_ge", 100), MAY_LAST),
    advice=(
        "is it meant to be so? A dead activation, a mask over everything and data that "
        "was not read make zeros"
    ),
)

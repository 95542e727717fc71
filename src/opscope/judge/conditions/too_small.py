"""TS, WS, GV: values below a threshold."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import GRADIENT, MAY_LAST, TENSOR, WEIGHT, Condition, Parameter
from opscope.judge.measures import abs_mean, maximum, mean, minimum
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Compare, Measure, Outcome, Params, any_of

_TESTS: dict[str, tuple[Measure, Compare]] = {
    "abs_mean_lt": (abs_mean, np.less),
    "max_lt": (maximum, np.less),
    "min_lt": (minimum, np.less),
    "mean_lt": (mean, np.less),
}
_PARAMETERS = (
    Parameter("abs_mean_lt", 0),
    *map(Parameter, ("max_lt", "min_lt", "mean_lt")),
    MAY_LAST,
)


def too_small(n: NumberColumns, params: Params) -> Outcome:
    """Find values below a threshold."""
    return any_of(n, params, _TESTS)


TENSOR_TOO_SMALL = Condition(
    "TS",
    "tensor_too_small",
    TENSOR,
    "a tensor is below a threshold",
    too_small,
    _PARAMETERS,
    advice="look at what it is made of: a scale or an initialisation may be too small",
)
WEIGHT_TOO_SMALL = Condition(
    "WS",
    "weight_too_small",
    WEIGHT,
    "a weight is below a threshold",
    too_small,
    _PARAMETERS,
    advice="lower the weight decay, and look at the initialisation",
)
GRADIENT_VANISHING = Condition(
    "GV",
    "gradient_vanishing",
    GRADIENT,
    "a gradient is below a threshold",
    too_small,
    _PARAMETERS,
    advice="normalise, add residual connections, and look for saturated or dead activations",
)

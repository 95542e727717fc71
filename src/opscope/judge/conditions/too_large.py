"""TL, WL, GL: values above a threshold."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import GRADIENT, MAY_LAST, TENSOR, WEIGHT, Condition, Parameter
from opscope.judge.measures import abs_mean, maximum, mean, minimum
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Compare, Measure, Outcome, Params, any_of

_TESTS: dict[str, tuple[Measure, Compare]] = {
    "abs_mean_gt": (abs_mean, np.greater),
    "max_gt": (maximum, np.greater),
    "min_gt": (minimum, np.greater),
    "mean_gt": (mean, np.greater),
}
_PARAMETERS = (
    Parameter("abs_mean_gt", 0),
    *map(Parameter, ("max_gt", "min_gt", "mean_gt")),
    MAY_LAST,
)


def too_large(n: NumberColumns, params: Params) -> Outcome:
    """Find values above a threshold."""
    return any_of(n, params, _TESTS)


TENSOR_TOO_LARGE = Condition(
    "TL",
    "tensor_too_large",
    TENSOR,
    "a tensor is above a threshold",
    too_large,
    _PARAMETERS,
    advice=(
        "look at what it is made of: normalise it, or lower the initialisation or the learning rate"
    ),
)
WEIGHT_TOO_LARGE = Condition(
    "WL",
    "weight_too_large",
    WEIGHT,
    "a weight is above a threshold",
    too_large,
    _PARAMETERS,
    advice="lower the learning rate, or add weight decay",
)
GRADIENT_TOO_LARGE = Condition(
    "GL",
    "gradient_too_large",
    GRADIENT,
    "a gradient is above a threshold",
    too_large,
    _PARAMETERS,
    advice="clip gradients (torch.nn.utils.clip_grad_norm_), or lower the learning rate",
)

"""WI: a weight that starts with odd values."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import WEIGHT, Condition, Parameter, percent
from opscope.judge.measures import maximum, minimum, zero_percentage
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Compare, Measure, Outcome, Params, any_of

_TESTS: dict[str, tuple[Measure, Compare]] = {
    "zero_percentage_ge": (zero_percentage, np.greater_equal),
    "max_gt": (maximum, np.greater),
    "min_lt": (minimum, np.less),
}


def initial_weight(n: NumberColumns, params: Params) -> Outcome:
    """Find weights that are zero, or too large or small."""
    return any_of(n, params, _TESTS)


WEIGHT_INITIALIZATION = Condition(
    "WI",
    "weight_initialization",
    WEIGHT,
    "a weight starts with odd values",
    initial_weight,
    (percent("zero_percentage_ge", 100), Parameter("max_gt"), Parameter("min_lt")),
    first_step_only=True,
    advice=(
        "initialise with random numbers of a size that fits the layer "
        "(torch.nn.init.kaiming_uniform_)"
    ),
)

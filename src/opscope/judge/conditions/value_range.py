"""TR, AR: values that leave a range."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import (
    ACTIVATION,
    MAY_LAST,
    TENSOR,
    Condition,
    Parameter,
    percent,
    support,
)
from opscope.judge.measures import range_percentage, spread
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Compare, Measure, Outcome, Params, any_of

_TESTS: dict[str, tuple[Measure, Compare]] = {
    "range_percentage_lt": (range_percentage, np.less),
    "range_percentage_gt": (range_percentage, np.greater),
    "max_min_lt": (spread, np.less),
    "max_min_gt": (spread, np.greater),
}
_PARAMETERS = (
    percent("range_percentage_lt"),
    percent("range_percentage_gt"),
    Parameter("max_min_lt", 0, above=True),
    Parameter("max_min_gt", 0),
    support("range_start_inclusive"),
    support("range_end_inclusive"),
    MAY_LAST,
)


def value_range(n: NumberColumns, params: Params) -> Outcome:
    """Find too many or too few elements in a range, and too wide or narrow a spread."""
    return any_of(n, params, _TESTS)


TENSOR_RANGE = Condition(
    "TR",
    "tensor_range",
    TENSOR,
    "a tensor's values leave a range",
    value_range,
    _PARAMETERS,
    needs_range=True,
    advice="compare with the steps before, and normalise or clamp what leads to it",
)
ACTIVATION_RANGE = Condition(
    "AR",
    "activation_range",
    ACTIVATION,
    "an activation's values leave a range",
    value_range,
    _PARAMETERS,
    needs_range=True,
    advice="normalise what goes into the activation, and look at the initialisation",
)

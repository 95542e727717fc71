"""WCL, WCS: a weight that moves too far, or hardly, in one step."""

from __future__ import annotations

import functools

import numpy as np

from opscope.judge.condition import MAY_LAST, WEIGHT, Condition, Parameter, support
from opscope.judge.measures import update_ratio
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Outcome, Params, any_of

EPSILON = 1e-9
"""Added to the divisor of the ratio unless told otherwise."""
_EPSILON = support("epsilon", 0, EPSILON)


def change_too_large(n: NumberColumns, params: Params) -> Outcome:
    """Find weights that move too far."""
    ratio = functools.partial(update_ratio, epsilon=params.get("epsilon", EPSILON))
    return any_of(n, params, {"abs_mean_update_ratio_gt": (ratio, np.greater)})


def change_too_small(n: NumberColumns, params: Params) -> Outcome:
    """Find weights that hardly move."""
    ratio = functools.partial(update_ratio, epsilon=params.get("epsilon", EPSILON))
    return any_of(n, params, {"abs_mean_update_ratio_lt": (ratio, np.less)})


WEIGHT_CHANGE_TOO_LARGE = Condition(
    "WCL",
    "weight_change_too_large",
    WEIGHT,
    "a weight moves too far in one step",
    change_too_large,
    (Parameter("abs_mean_update_ratio_gt", 0, default=0.1), _EPSILON, MAY_LAST),
    needs_change=True,
    advice=(
        "lower the learning rate, warm it up or clip gradients; from 0, and in the first "
        "steps, large changes are usual"
    ),
)
WEIGHT_CHANGE_TOO_SMALL = Condition(
    "WCS",
    "weight_change_too_small",
    WEIGHT,
    "a weight hardly moves in one step",
    change_too_small,
    (Parameter("abs_mean_update_ratio_lt", 0, default=1e-4), _EPSILON, MAY_LAST),
    needs_change=True,
    advice="raise the learning rate, or look whether its gradients vanish",
)

"""Conditions on the row of a value alone."""

from __future__ import annotations

import numpy as np

from opscope.watch.measures import (
    abs_mean,
    maximum,
    mean,
    minimum,
    range_percentage,
    spread,
    zero_percentage,
)
from opscope.watch.numbers import Numbers
from opscope.watch.outcome import (
    CHECKED,
    EMPTY,
    ONLY_NAN,
    Compare,
    Measure,
    Measured,
    Outcome,
    Params,
    any_of,
    certain,
)

_GT: Compare = np.greater
_LT: Compare = np.less
_GE: Compare = np.greater_equal
_LARGE: dict[str, tuple[Measure, Compare]] = {
    "abs_mean_gt": (abs_mean, _GT),
    "max_gt": (maximum, _GT),
    "min_gt": (minimum, _GT),
    "mean_gt": (mean, _GT),
}
_SMALL: dict[str, tuple[Measure, Compare]] = {
    "abs_mean_lt": (abs_mean, _LT),
    "max_lt": (maximum, _LT),
    "min_lt": (minimum, _LT),
    "mean_lt": (mean, _LT),
}


def overflow(n: Numbers, params: Params) -> Outcome:
    """Any NaN or Inf at all (TO, WO, GE)."""
    return certain(n.bad > 0, nan=n.nan, inf=n.infinite)


def all_zero(n: Numbers, params: Params) -> Outcome:
    """Too many zeros (TZ)."""
    return any_of(n, params, {"zero_percentage_ge": (zero_percentage, _GE)})


def value_range(n: Numbers, params: Params) -> Outcome:
    """Too many or too few elements in a range, or too wide or narrow a spread (TR, AR)."""
    tests: dict[str, tuple[Measure, Compare]] = {
        "range_percentage_lt": (range_percentage, _LT),
        "range_percentage_gt": (range_percentage, _GT),
        "max_min_lt": (spread, _LT),
        "max_min_gt": (spread, _GT),
    }
    return any_of(n, params, tests)


def too_large(n: Numbers, params: Params) -> Outcome:
    """Above a threshold (TL, WL, GL)."""
    return any_of(n, params, _LARGE)


def too_small(n: Numbers, params: Params) -> Outcome:
    """Below a threshold (TS, WS, GV)."""
    return any_of(n, params, _SMALL)


def initial_weight(n: Numbers, params: Params) -> Outcome:
    """A weight that starts with odd values (WI)."""
    tests: dict[str, tuple[Measure, Compare]] = {
        "zero_percentage_ge": (zero_percentage, _GE),
        "max_gt": (maximum, _GT),
        "min_lt": (minimum, _LT),
    }
    return any_of(n, params, tests)


def dead(n: Numbers, params: Params) -> Outcome:
    """A ReLU that hardly ever lets anything through (AD)."""
    return all_zero(n, params)


def saturated_tanh(n: Numbers, params: Params) -> Outcome:
    """A tanh whose mean derivative, 1 - y², is next to nothing (AS)."""
    return any_of(n, params, {"derivative_lt": (_tanh_derivative, _LT)})


def saturated_sigmoid(n: Numbers, params: Params) -> Outcome:
    """A sigmoid whose mean derivative, y·(1 - y), is next to nothing (AS)."""
    return any_of(n, params, {"derivative_lt": (_sigmoid_derivative, _LT)})


def _tanh_derivative(n: Numbers) -> Measured:
    return _derivative(n, np.ones(len(n)))


def _sigmoid_derivative(n: Numbers) -> Measured:
    return _derivative(n, n.mean)


def _derivative(n: Numbers, first: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Measured:
    with np.errstate(divide="ignore", invalid="ignore"):
        actual = first - n.l2**2 / n.finite
    nothing = np.where(n.count == 0, EMPTY, np.where(n.finite == 0, ONLY_NAN, CHECKED))
    return Measured(actual, nothing.astype(np.uint8))

"""Conditions on how a weight changed since the step before."""

from __future__ import annotations

import functools

import numpy as np

from opscope.watch.measures import update_ratio, without_previous
from opscope.watch.numbers import Numbers
from opscope.watch.outcome import Outcome, Params, any_of, certain

EPSILON, RTOL, ATOL = 1e-9, 1e-5, 1e-8
"""What the conditions use unless told otherwise."""


def change_too_large(n: Numbers, params: Params) -> Outcome:
    """A weight that moves too far in one step (WCL)."""
    ratio = functools.partial(update_ratio, epsilon=params.get("epsilon", EPSILON))
    return any_of(n, params, {"abs_mean_update_ratio_gt": (ratio, np.greater)})


def change_too_small(n: Numbers, params: Params) -> Outcome:
    """A weight that hardly moves (WCS)."""
    ratio = functools.partial(update_ratio, epsilon=params.get("epsilon", EPSILON))
    return any_of(n, params, {"abs_mean_update_ratio_lt": (ratio, np.less)})


def not_changed(n: Numbers, params: Params) -> Outcome:
    """A weight of which every element is within atol + rtol·|before| of the step before (WNC).

    The tolerances are applied where the two tensors are compared.
    """
    reasons = without_previous(n)
    if n.change is None:
        return certain(np.zeros(len(n), bool), reasons)
    return certain(n.change.outside == 0, reasons, outside=n.change.outside)

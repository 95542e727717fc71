"""Numbers of values as conditions mean them: NaN is left out, infinities take part."""

from __future__ import annotations

import numpy as np

from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import (
    BOTH_INFINITIES,
    CHECKED,
    EMPTY,
    INCOMPARABLE,
    NO_PREVIOUS,
    NO_VALUES,
    SAME_INFINITY,
    Codes,
    Measured,
    without_elements,
)


def maximum(n: NumberColumns) -> Measured:
    """The largest element."""
    return Measured(n.max, without_elements(n))


def minimum(n: NumberColumns) -> Measured:
    """The smallest element."""
    return Measured(n.min, without_elements(n))


def spread(n: NumberColumns) -> Measured:
    """The largest element less the smallest."""
    with np.errstate(invalid="ignore"):
        actual = n.max - n.min
    reason = without_elements(n)
    same = (reason == CHECKED) & np.isnan(actual)
    return Measured(actual, np.where(same, SAME_INFINITY, reason).astype(np.uint8))


def mean(n: NumberColumns) -> Measured:
    """The mean; infinite if there are infinities of one sign."""
    actual = np.where(n.posinf > 0, np.inf, np.where(n.neginf > 0, -np.inf, n.mean))
    reason = without_elements(n)
    both = (n.posinf > 0) & (n.neginf > 0)
    return Measured(actual, np.where(both, BOTH_INFINITIES, reason).astype(np.uint8))


def abs_mean(n: NumberColumns) -> Measured:
    """The mean of the absolute values."""
    return Measured(np.where(n.infinite > 0, np.inf, n.mean_abs), without_elements(n))


def zero_percentage(n: NumberColumns) -> Measured:
    """Measure the share of zeros among all elements, in percent."""
    return Measured(_percentage(n, n.zero), _if_any(n))


def range_percentage(n: NumberColumns) -> Measured:
    """Measure the share of elements in the watchpoint's range, in percent."""
    reason = _if_any(n)
    if n.in_range is None:
        missing = np.full(len(n), NO_VALUES, np.uint8) if n.missing is None else n.missing
        return Measured(np.full(len(n), np.nan), np.where(reason == CHECKED, missing, reason))
    if n.missing is not None:
        reason = np.where(reason == CHECKED, n.missing, reason)
    return Measured(_percentage(n, n.in_range), reason)


def update_ratio(n: NumberColumns, epsilon: float) -> Measured:
    """mean(|now - before|) / (mean(|before|) + epsilon)."""
    reason = without_previous(n)
    if n.change is None:
        return Measured(np.full(len(n), np.nan), reason)
    with np.errstate(divide="ignore", invalid="ignore"):
        actual = n.change.mean / (n.change.mean_abs_before + epsilon)
    actual = np.where(n.change.mean == 0, 0.0, actual)  # also from 0 to 0 with no epsilon
    actual = np.where(n.change.infinite, np.inf, actual)
    unknown = (reason == CHECKED) & np.isnan(actual)
    return Measured(actual, np.where(unknown, INCOMPARABLE, reason).astype(np.uint8))


def without_previous(n: NumberColumns) -> Codes:
    """Return the reasons why values cannot be compared with those of the step before."""
    reason = _if_any(n)
    if n.missing is not None:
        reason = np.where(reason == CHECKED, n.missing, reason)
    if n.change is None:
        reason = np.where(reason == CHECKED, NO_PREVIOUS, reason)
    return reason.astype(np.uint8)


def _if_any(n: NumberColumns) -> Codes:
    return np.where(n.count == 0, EMPTY, CHECKED).astype(np.uint8)


def _percentage(
    n: NumberColumns, part: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * part / n.count

"""The answer of a condition for each value: hit or not, the number compared, or why not checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opscope.judge.numbers import Flags, Floats, NumberColumns

REASONS = (
    "",
    "the tensor is empty",
    "the tensor holds nothing but NaN",
    "the tensor holds both +Inf and -Inf, so it has no mean",
    "there is no value of an earlier step",
    "its shape is not that of the step before",
    "its values were not kept, and statistics alone do not tell",
    "no elements of the two steps can be compared",
    "max and min are the same infinity",
)
(CHECKED, EMPTY, ONLY_NAN, BOTH_INFINITIES, NO_PREVIOUS, RESHAPED, NO_VALUES, INCOMPARABLE) = range(
    8
)
SAME_INFINITY = 8

Params = Mapping[str, float]
Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Measured:
    """A number of each value, and where there is none, why."""

    actual: Floats
    reason: Codes


Measure = Callable[[NumberColumns], Measured]


@dataclass(frozen=True)
class Outcome:
    """Per value: whether the condition holds, what was compared, and why it could not be."""

    hits: Flags
    reasons: Codes
    actual: dict[str, Floats] = field(default_factory=dict)
    """By the name of the parameter that a number was compared with."""


def certain(hits: Flags, reasons: Codes | None = None, **actual: Floats) -> Outcome:
    """An outcome that needs no threshold."""
    if reasons is None:
        reasons = np.zeros(len(hits), np.uint8)
    return Outcome(hits & (reasons == CHECKED), reasons, actual)


Compare = Callable[[Floats, float], Flags]


def any_of(
    n: NumberColumns, params: Params, tests: Mapping[str, tuple[Measure, Compare]]
) -> Outcome:
    """Tell whether one of the given thresholds is passed; a value with a hit counts as checked."""
    hits, reasons = np.zeros(len(n), bool), np.zeros(len(n), np.uint8)
    actual: dict[str, Floats] = {}
    for name, (measure, compare) in tests.items():
        if name not in params:
            continue
        measured = measure(n)
        actual[name] = measured.actual
        with np.errstate(invalid="ignore"):
            hits |= compare(measured.actual, params[name]) & (measured.reason == CHECKED)
        reasons = np.where(reasons == CHECKED, measured.reason, reasons)
    reasons = np.where(hits, np.uint8(CHECKED), reasons)
    return Outcome(hits, reasons, actual)


def without_elements(n: NumberColumns) -> Codes:
    """Return the reasons why a number over all elements but NaN does not exist."""
    only_nan = np.where(n.count == n.nan, ONLY_NAN, CHECKED)
    return np.where(n.count == 0, EMPTY, only_nan).astype(np.uint8)

"""The weight of the tails: the mean fourth power of the deviations, by the variance squared.

It is 3 for a normal distribution, 1.8 for a uniform one, and large where a few elements are far
from all others: outliers beside which a narrow type has no room for the rest. Equal elements have
none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.stats.elements import FiniteElements
from opscope.stats.numpy_stats import BLOCK


def of(elements: FiniteElements) -> float:
    """The kurtosis of the finite elements, added up in float64."""
    flat, count = elements.finite, elements.finite.size
    if not count:
        return math.nan
    mean = math.fsum(float(part.sum()) for part in _parts(flat)) / count
    squares, fourths = [], []
    for part in _parts(flat):
        square = np.square(part - mean)
        squares.append(float(square.sum()))
        fourths.append(float(np.dot(square, square)))
    variance = math.fsum(squares) / count
    return math.fsum(fourths) / count / variance**2 if variance else math.nan


def _parts(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The elements as they lie around the first, scaled so that no power of them overflows."""
    exponent = math.frexp(max(abs(float(flat.min())), abs(float(flat.max()))))[1]
    first = math.ldexp(float(flat[0]), -exponent)
    for start in range(0, flat.size, BLOCK):
        wide = flat[start : start + BLOCK].astype(np.float64)
        yield np.ldexp(wide, -exponent) - first

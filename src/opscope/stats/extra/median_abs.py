"""The median of |x| over the finite elements: how large a usual element is, whatever a few are."""

from __future__ import annotations

import math

import numpy as np

from opscope.stats.elements import FiniteElements


def of(elements: FiniteElements) -> float:
    """The middle one of the magnitudes, or the mean of the two in the middle."""
    flat, count = elements.finite, elements.finite.size
    if not count:
        return math.nan
    magnitudes = np.abs(flat if flat.dtype.kind == "f" else flat.astype(np.float64))
    places = (count - 1) // 2, count // 2
    magnitudes.partition(places)
    low, high = (float(magnitudes[place]) for place in places)
    return (low + high) / 2 if math.isfinite(low + high) else low / 2 + high / 2

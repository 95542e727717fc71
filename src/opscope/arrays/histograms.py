"""Counts of elements between edges."""

from __future__ import annotations

import numpy as np

from opscope.arrays.numbers import Array, Data, wide
from opscope.arrays.picked import Picked
from opscope.errors import OpscopeError

MOST_BINS = 1000


def histogram(picked: Picked, bins: int = 60, log: bool = False) -> Data:
    """Count the finite elements in equal intervals of x, or of log10 |x|.

    `negative` are those of them below zero; on the log scale zeros are only counted.
    """
    if not 1 <= bins <= MOST_BINS:
        raise OpscopeError(f"bins = {bins}: must be between 1 and {MOST_BINS}")
    ends = _ends(picked, log)
    counts, negative = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    other = dict.fromkeys(("nan", "posinf", "neginf", "zero"), 0)
    for _, part in picked.boxes():
        _count_other(part, other)
        numbers = _finite(part, log)
        below = numbers < 0
        if log:
            found = np.histogram(np.log10(-numbers[below]), bins, ends)[0]
            counts += np.histogram(np.log10(numbers[~below]), bins, ends)[0] + found
            negative += found
        else:
            found = np.histogram(numbers, bins, ends)[0]
            counts += found
            negative += _below_zero(found, int(np.count_nonzero(below)), ends)
    return {
        "edges": np.linspace(*ends, bins + 1).tolist(),
        "counts": counts.tolist(),
        "negative": negative.tolist(),
        **other,
    }


def _below_zero(counts: Array, total: int, ends: tuple[float, float]) -> Array:
    """Count those below zero in each bin, where so many are altogether."""
    edges = np.linspace(*ends, len(counts) + 1)
    found = np.where(edges[1:] <= 0, counts, 0)
    mixed = np.flatnonzero((edges[:-1] < 0) & (edges[1:] > 0))
    found[mixed] = total - found.sum()
    return found


def _ends(picked: Picked, log: bool) -> tuple[float, float]:
    """From where to where there is anything."""
    low, high = np.inf, -np.inf
    for _, part in picked.boxes():
        numbers = np.abs(_finite(part, log)) if log else _finite(part, log)
        if numbers.size:
            low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
    if low > high:
        return 0.0, 1.0
    if log:
        low, high = float(np.log10(low)), float(np.log10(high))
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _finite(part: Array, log: bool) -> Array:
    """Finite elements, without zeros for a log scale."""
    flat = wide(part).reshape(-1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        flat = flat[np.isfinite(flat)]
    flat = flat[flat != 0] if log else flat
    return flat if flat.dtype.kind == "f" and not log else flat.astype(np.float64)


def _count_other(part: Array, counts: dict[str, int]) -> None:
    counts["zero"] += int(part.size - np.count_nonzero(part))
    if part.dtype.kind == "f":
        counts["nan"] += int(np.isnan(part).sum())
        counts["posinf"] += int(np.isposinf(part).sum())
        counts["neginf"] += int(np.isneginf(part).sum())

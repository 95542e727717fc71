"""Statistics of elements: of all that are looked at, or of each place along an axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.arrays.numbers import Array, Data, one, wide
from opscope.arrays.picked import Picked
from opscope.errors import OpscopeError

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
MOST_PLACES = 1000
_CLIP = 0.995
"""Colours are for this share of the elements; what is beyond is an outlier."""
_FAINT = 0.02


def statistics(picked: Picked) -> Data:
    """The numbers of everything that is looked at, and its quantiles."""
    tally = _Tally(1)
    for _, part in picked.boxes():
        tally.add(slice(None), part.reshape(1, -1))
    return {"numbers": tally.numbers()[0], **spread(picked)}


def spread(picked: Picked) -> Data:
    """Quantiles and the ends of a scale of colours, of a sample where there are very many."""
    sample = wide(picked.sample())
    finite = sample[np.isfinite(sample)] if sample.dtype.kind == "f" else sample
    sizes = np.abs(finite.astype(np.float64))
    above = sizes[sizes > 0]
    at = np.quantile(finite.astype(np.float64), SHARES).tolist() if finite.size else []
    return {
        "quantiles": [[share, one(value)] for share, value in zip(SHARES, at, strict=False)],
        "sampled": picked.is_sampled,
        "clip": float(np.quantile(sizes, _CLIP, method="higher")) if sizes.size else 0.0,
        "faint": float(np.quantile(above, _FAINT)) if above.size else 0.0,
    }


def along(picked: Picked, axis: int, first: int, count: int) -> Data:
    """The numbers of each place along an axis of the array, over all others that are looked at."""
    if not 0 <= axis < len(picked.spans):
        raise OpscopeError(f"there is no axis {axis}: there are {len(picked.spans)}")
    span = picked.spans[axis]
    if not span.ranged:
        raise OpscopeError(f"axis {axis} is fixed at {span.start}; take a range of it, such as :")
    place = sum(each.ranged for each in picked.spans[:axis])
    part = picked.narrowed(place, first, min(count, MOST_PLACES))
    tally = _Tally(part.shape[place])
    for box, elements in part.boxes():
        moved = np.moveaxis(elements, place, 0)
        tally.add(box[place], moved.reshape(moved.shape[0], -1))
    return {
        "axis": axis,
        "total": span.count,
        "index": [span.start + span.step * (first + k) for k in range(part.shape[place])],
        "numbers": tally.numbers(),
    }


@dataclass
class _Tally:
    """Numbers of several groups at once; groups are added to part by part."""

    groups: int
    count: Array = field(init=False)
    finite: Array = field(init=False)
    mean: Array = field(init=False)
    square: Array = field(init=False)
    """The sum of squared distances to the mean."""
    total: dict[str, Array] = field(init=False)
    low: list[Any] = field(init=False)
    high: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.count, self.finite = (np.zeros(self.groups, np.int64) for _ in range(2))
        self.mean, self.square = np.zeros(self.groups), np.zeros(self.groups)
        names = ("nan", "posinf", "neginf", "zero", "negative", "positive", "size", "squares")
        self.total = {name: np.zeros(self.groups) for name in names}
        self.low, self.high = [None] * self.groups, [None] * self.groups

    def add(self, where: slice, part: Array) -> None:
        """Add elements: one row for each of these groups."""
        if not part.size:
            return
        part = wide(part)
        floats = part.dtype.kind == "f"
        bad = ~np.isfinite(part) if floats else None
        self.count[where] += part.shape[1]
        for name, test in (("nan", np.isnan), ("posinf", np.isposinf), ("neginf", np.isneginf)):
            if bad is not None and bad.any():
                self.total[name][where] += test(part).sum(axis=1)
        self.total["zero"][where] += (part == 0).sum(axis=1)
        self.total["negative"][where] += (part < 0).sum(axis=1)
        self.total["positive"][where] += (part > 0).sum(axis=1)
        self._widen(where, part)
        numbers = part.astype(np.float64)
        amount = np.full(part.shape[0], part.shape[1])
        if bad is not None and bad.any():
            numbers[bad] = 0.0
            amount = part.shape[1] - bad.sum(axis=1)
        self._spread(where, numbers, amount, bad)

    def _widen(self, where: slice, part: Array) -> None:
        """Widen the extremes by these elements: NaN is left out, infinities are not."""
        least, most = np.fmin.reduce(part, axis=1), np.fmax.reduce(part, axis=1)
        for group, low, high in zip(range(self.groups)[where], least, most, strict=True):
            if part.dtype.kind == "f" and np.isnan(low):
                continue
            mine, other = self.low[group], self.high[group]
            self.low[group] = low if mine is None or low < mine else mine
            self.high[group] = high if other is None or high > other else other

    def _spread(self, where: slice, numbers: Array, amount: Array, bad: Array | None) -> None:
        """Mean and distances to it, as they are of two parts together."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = numbers.sum(axis=1) / np.maximum(amount, 1)
            apart = numbers - mean[:, None]
            if bad is not None and bad.any():
                apart[bad] = 0.0
            before, together = self.finite[where], self.finite[where] + amount
            step = mean - self.mean[where]
            share = amount / np.maximum(together, 1)
            self.square[where] += (apart * apart).sum(axis=1) + step * step * before * share
            self.mean[where] += step * share
            self.total["size"][where] += np.abs(numbers).sum(axis=1)
            self.total["squares"][where] += (numbers * numbers).sum(axis=1)
        self.finite[where] = together

    def numbers(self) -> list[Data]:
        """The numbers of each group."""
        return [self._of(group) for group in range(self.groups)]

    def _of(self, group: int) -> Data:
        finite = int(self.finite[group])
        none = float("nan")
        low, high = self.low[group], self.high[group]
        counts = ("nan", "posinf", "neginf", "zero", "negative", "positive")
        found = {
            "count": int(self.count[group]),
            "min": one(none if low is None else low),
            "max": one(none if high is None else high),
            "mean": one(float(self.mean[group]) if finite else none),
            "mean_abs": one(float(self.total["size"][group]) / finite if finite else none),
            "l2": one(float(np.sqrt(self.total["squares"][group])) if finite else none),
            "std": one(float(np.sqrt(self.square[group] / finite)) if finite else none),
        }
        return found | {name: int(self.total[name][group]) for name in counts}

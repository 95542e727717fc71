"""The distance of two arrays, in a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opscope.arrays.numbers import Array, Data, one
from opscope.arrays.picked import Picked, difference


@dataclass
class _Apart:
    """The findings so far."""

    differing: int = 0
    """Elements that are not equal."""
    beyond: int = 0
    """Elements that differ by more than the tolerance."""
    unlike: int = 0
    """Elements of which only one is finite, or whose infinities differ."""
    largest: float = 0.0
    place: int | None = None
    total: float = 0.0
    dot: float = 0.0
    now_squares: float = 0.0
    before_squares: float = 0.0

    def add(self, start: int, now: Array, before: Array, apart: Array) -> None:
        """Elements from the number `start` on."""
        self.beyond += int(np.count_nonzero(apart))
        if np.isfinite(apart).all() and np.isfinite(now).all():
            self.differing += int(np.count_nonzero(now != before))
        else:
            same = (now == before) | (np.isnan(now) & np.isnan(before))
            self.differing += int(same.size - np.count_nonzero(same))
            self.unlike += int(np.count_nonzero(~np.isfinite(apart)))
            sound = np.isfinite(now) & np.isfinite(before)
            now, before = np.where(sound, now, 0.0), np.where(sound, before, 0.0)
            apart = np.where(np.isfinite(apart), apart, 0.0)
        sizes = np.abs(apart)
        at = int(sizes.argmax())
        if sizes[at] > self.largest:
            self.largest, self.place = float(sizes[at]), start + at
        self.total += float(sizes.sum())
        with np.errstate(over="ignore"):
            self.dot += _product(now, before)
            self.now_squares += _product(now, now)
            self.before_squares += _product(before, before)


def compared(picked: Picked) -> Data:
    """Of a difference: how many elements differ, by how much, and where the most."""
    found = _Apart()
    for start, now, before in picked.pairs():
        found.add(start, now, before, difference(now, before, picked.tolerance))
    size = math.sqrt(found.now_squares) * math.sqrt(found.before_squares)
    at = found.place
    return {
        "elements": picked.size,
        "differing": found.differing,
        "beyond": found.beyond,
        "unlike": found.unlike,
        "max_abs": found.largest,
        "mean_abs": found.total / picked.size if picked.size else 0.0,
        "cosine": one(found.dot / size if size else float("nan")),
        "index": None if at is None else picked.index_of(at),
        "row": None if at is None else at // picked.columns,
        "column": None if at is None else at % picked.columns,
    }


def _product(one: Array, other: Array) -> float:
    """The sum of products, on this thread: BLAS would wake all others."""
    return float(np.einsum("i,i->", one, other))

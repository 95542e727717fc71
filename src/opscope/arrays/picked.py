"""The part of an array that is looked at: a slice, or a difference, as rows and columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opscope.arrays.index import parse_index, spans_of
from opscope.arrays.numbers import Array, Data, real
from opscope.errors import OpscopeError

PART = 1 << 20
"""So many elements are looked at together: they stay in the processor's cache."""
SAMPLE = 1 << 18
"""So many stand for all where there are more than `PART`."""
_LONG = 256
"""A longer row alone is folded into several."""
_SQUARE = 64.0
"""The greatest ratio of sides that a folded row may have."""


class Tolerance(NamedTuple):
    """Differences up to `atol + rtol * |before|` count as none."""

    rtol: float = 0.0
    atol: float = 0.0


class Picked:
    """Elements of an array, or of the difference of two; only what is asked for is read."""

    def __init__(
        self,
        array: Array,
        index: str = "",
        fold: int = 0,
        before: Array | None = None,
        tolerance: Tolerance = Tolerance(),  # noqa: B008 - it cannot be changed
    ) -> None:
        if before is not None and before.shape != array.shape:
            raise OpscopeError(
                f"these have different shapes: {list(array.shape)} and {list(before.shape)}"
            )
        parts = parse_index(index, array.shape)
        self.spans = spans_of(parts, array.shape)
        kept = real(np.zeros(0, array.dtype)).dtype
        self.dtype = kept if before is None else np.dtype(np.float64)
        self._chosen: Array = np.asarray(array[parts])
        self._before = None if before is None else np.asarray(before[parts])
        self.tolerance = tolerance
        self.shape = self._chosen.shape
        self.size = self._chosen.size
        self._lead, self.columns = _layout(self.shape, fold)
        self.rows = self.size // self.columns if self.columns else 0

    def layout(self) -> Data:
        """Return how the elements are laid out."""
        return {
            "axes": [span._asdict() for span in self.spans],
            "shape": list(self.shape),
            "dtype": str(self.dtype),
            "rows": self.rows,
            "columns": self.columns,
        }

    def part(self, top: int, bottom: int, left: int = 0, right: int | None = None) -> Array:
        """Some rows and columns."""
        end = self.columns if right is None else right
        now = real(self._window(self._chosen, top, bottom, left, end))
        if self._before is None:
            return now
        then = real(self._window(self._before, top, bottom, left, end))
        return difference(now, then, self.tolerance)

    def both(self, top: int, bottom: int, left: int, right: int) -> tuple[Array, Array] | None:
        """The two that a difference is of, there; None of a single value."""
        if self._before is None:
            return None
        now = real(self._window(self._chosen, top, bottom, left, right))
        return now, real(self._window(self._before, top, bottom, left, right))

    def boxes(self, most: int = PART) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """All elements in their order, in boxes of at most so many, each with its place."""
        for box in boxes_of(self.shape, most):
            now = real(self._chosen[box])
            if self._before is not None:
                now = difference(now, real(self._before[box]), self.tolerance)
            yield box, now

    def pairs(self) -> Iterator[tuple[int, Array, Array]]:
        """Of a difference: the elements of both as float64, with the number of the first."""
        if self._before is None:
            raise OpscopeError("there is nothing that this is compared with")
        for box in boxes_of(self.shape, PART):
            now, before = real(self._chosen[box]), real(self._before[box])
            start = self.flat_start(box)
            yield start, now.reshape(-1).astype(float), before.reshape(-1).astype(float)

    def flat_start(self, box: tuple[slice, ...]) -> int:
        """Count the elements that come before a box."""
        starts = tuple(part.start for part in box)
        return int(np.ravel_multi_index(starts, self.shape)) if starts else 0

    @property
    def is_sampled(self) -> bool:
        """True if there are so many elements that `sample` has only some of them."""
        return self.size > PART

    def sample(self) -> Array:
        """Elements from everywhere."""
        if not self.is_sampled:
            parts = [part.reshape(-1) for _, part in self.boxes()]
            return np.concatenate(parts) if parts else np.zeros(0)
        step = self.size // SAMPLE + 1
        while math.gcd(step, self.columns) > 1:  # or whole columns would be passed over
            step += 1
        places = np.unravel_index(np.arange(0, self.size, step), self.shape)
        now = real(self._chosen[places])
        if self._before is None:
            return now
        return difference(now, real(self._before[places]), self.tolerance)

    def planes(self, numbers: Array) -> Array:
        """Return what the last two axes span, at some places of all axes before."""
        at = np.unravel_index(numbers, self.shape[:-2])
        now = real(self._chosen[at])
        if self._before is None:
            return now
        return difference(now, real(self._before[at]), self.tolerance)

    def narrowed(self, axis: int, first: int, count: int) -> Picked:
        """Only some places of a ranged axis, counted among those that are."""
        found = object.__new__(Picked)
        found.__dict__.update(self.__dict__)
        cut = (slice(None),) * axis + (slice(first, first + count),)
        found._chosen = self._chosen[cut]
        found._before = None if self._before is None else self._before[cut]
        found.shape, found.size = found._chosen.shape, found._chosen.size
        return found

    def index_of(self, flat: int) -> list[int]:
        """The index in the whole array of the element with this number."""
        within = iter(np.unravel_index(flat, self.shape) if self.shape else ())
        return [
            span.start + span.step * int(next(within)) if span.ranged else span.start
            for span in self.spans
        ]

    def _window(self, chosen: Array, top: int, bottom: int, left: int, right: int) -> Array:
        if chosen.flags.c_contiguous or chosen.ndim == 0:
            return chosen.reshape(self.rows, self.columns)[top:bottom, left:right]
        if self._lead is None or not self._lead:  # one row, or one that was folded
            numbers = np.arange(top, bottom)[:, None] * self.columns + np.arange(left, right)
            return np.asarray(chosen[np.unravel_index(numbers, self.shape)])
        rows = chosen[np.unravel_index(np.arange(top, bottom), self._lead)]
        return np.asarray(rows.reshape(bottom - top, self.columns)[:, left:right])


def difference(now: Array, before: Array, tolerance: Tolerance) -> Array:
    """`now - before` as float64; equal ones, also NaN and infinities, are 0."""
    one, other = now.astype(np.float64), before.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = one - other
        if not np.isfinite(apart).all():
            apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
        if tolerance.rtol or tolerance.atol:
            apart[np.abs(apart) <= tolerance.atol + tolerance.rtol * np.abs(other)] = 0.0
    return apart


def _layout(shape: tuple[int, ...], fold: int) -> tuple[tuple[int, ...] | None, int]:
    """The axes that rows count through, and how many columns there are.

    `fold` last axes make up the columns; with 0 as many as give the squarest picture, and a long
    single row is folded, which is told by None for the axes.
    """
    if not shape:
        return (), 1
    sizes = [math.prod(shape[place:]) for place in range(len(shape))]
    total = sizes[0]
    if fold:
        place = max(0, len(shape) - fold)
        return shape[:place], sizes[place]
    if not total:
        return shape[:-1], shape[-1]
    if max(shape) == total > _LONG:
        width = _width(total)
        return (None if width < total else ()), width
    if len(shape) == 1:
        return (), total
    best = min(range(1, len(shape)), key=lambda place: _skew(total, sizes[place]))
    return shape[:best], sizes[best]


def _skew(total: int, columns: int) -> float:
    return abs(math.log(total / columns / columns))


def _width(total: int) -> int:
    """The columns of a folded row: a divisor near the square root, or all where there is none."""
    for width in range(math.isqrt(total), 1, -1):
        if total % width == 0:
            width = total // width
            return width if width * width <= total * _SQUARE else total
    return total


def boxes_of(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most so many elements that cover a shape, in the order of its elements."""
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    if inner > most:
        for place in range(shape[0]):
            for rest in boxes_of(shape[1:], most):
                yield (slice(place, place + 1), *rest)
        return
    step = max(1, most // max(1, inner))
    whole = tuple(slice(0, size) for size in shape[1:])
    if inner:
        for place in range(0, shape[0], step):
            yield (slice(place, min(shape[0], place + step)), *whole)

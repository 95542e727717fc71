"""Indices such as `0, :, 2:10, ::4`: parsed by hand, checked against a shape."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from opscope.arrays.numbers import Array
from opscope.errors import OpscopeError

_WHOLE = r"\s*(-?[0-9]{1,18})?\s*"
_INDEX = re.compile(f"{_WHOLE}(?:(:){_WHOLE}(?:(:){_WHOLE})?)?", re.ASCII)


class AxisPart(NamedTuple):
    """The part taken of one axis: `count` elements from `start` on, each `step` after the last."""

    start: int
    step: int
    count: int  # type: ignore[assignment]  # more useful here than tuple.count
    ranged: bool
    """False where the axis was given as one number."""


def parse_index(text: str, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """An index such as `0, :, 2:10, ::4`; axes that are not named are taken whole.

    >>> parse_index("-1, ::2", (3, 8))
    (-1, slice(None, None, 2))
    """
    words = text.split(",") if text.strip() else []
    if len(words) > len(shape):
        raise OpscopeError(f"{len(words)} indices for {len(shape)} dimensions")
    return tuple(_index(word, size) for word, size in zip(words, shape, strict=False))


def spans_of(index: tuple[int | slice, ...], shape: tuple[int, ...]) -> list[AxisPart]:
    """Return what an index takes of each axis.

    >>> [tuple(part) for part in spans_of((-1, slice(None, None, 2)), (3, 8))]
    [(2, 1, 1, False), (0, 2, 4, True)]
    """
    found = []
    for axis, size in enumerate(shape):
        part = index[axis] if axis < len(index) else slice(None)
        if isinstance(part, int):
            found.append(AxisPart(part % size, 1, 1, False))
            continue
        taken = range(size)[part]
        found.append(AxisPart(taken.start, taken.step, len(taken), True))
    return found


def _index(word: str, size: int) -> int | slice:
    match = _INDEX.fullmatch(word)
    if match is None or not word.strip():
        raise OpscopeError(f'"{word.strip()}" is no index; write 0, -1, :, 2:10 or ::4')
    start, colon, stop, _, step = match.groups()
    if not colon:
        number = int(start)
        if not -size <= number < size:
            raise OpscopeError(f"index {number} is outside a dimension of {size}")
        return number
    if step is not None and int(step) < 1:
        raise OpscopeError(f'"{word.strip()}": the step must be at least 1')
    return slice(*(None if part is None else int(part) for part in (start, stop, step)))


def taken(array: Array, index: str) -> Array:
    """The part of an array that an index takes; nothing of it is read yet."""
    return np.asarray(array[parse_index(index, array.shape)])

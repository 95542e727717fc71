"""Values whose shape suggests pictures: filters, channels, images, attention maps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opscope.arrays.numbers import Data, plain
from opscope.arrays.picked import Picked
from opscope.errors import OpscopeError

_SIDE = 64
"""Pictures are shown with at most so many points on a side."""
_MOST = 1 << 17
"""Numbers given at once."""
_KERNEL = 31
"""Larger than this is no filter."""


class Kind(NamedTuple):
    """The form of a value as pictures."""

    kind: str
    """filters, images, channels or attention."""
    count: int  # type: ignore[assignment]  # more useful here than tuple.count
    height: int
    width: int
    colours: int
    """3 for red, green and blue, otherwise 1."""


def suggested(shape: tuple[int, ...], op_type: str, io: str, slot: int) -> Kind | None:
    """Choose the pictures that the shape of an operator's value suggests; None for none.

    >>> suggested((32, 3, 5, 5), "convolution", "input", 1)
    Kind(kind='filters', count=32, height=5, width=5, colours=3)
    """
    if min(shape, default=0) < 1:
        return None
    if len(shape) == 4:
        found = _of_four(shape, op_type, io, slot)
        if found is not None:
            return found
    if len(shape) >= 3 and "softmax" in op_type and shape[-1] > 1 and shape[-2] > 1:
        count = int(np.prod(shape[:-2]))
        return Kind("attention", count, shape[-2], shape[-1], 1)
    return None


def _of_four(shape: tuple[int, ...], op_type: str, io: str, slot: int) -> Kind | None:
    first, second, height, width = shape
    if "conv" in op_type and io == "input" and slot == 1 and max(height, width) <= _KERNEL:
        if second == 3:
            return Kind("filters", first, height, width, 3)
        return Kind("filters", first * second, height, width, 1)
    if second == 3 and min(height, width) >= 8:
        return Kind("images", first, height, width, 3)
    two_sided = any(word in op_type for word in ("conv", "pool", "norm", "relu"))
    if two_sided and min(height, width) >= 2:
        return Kind("channels", first * second, height, width, 1)
    return None


def pictures(picked: Picked, kind: Kind, first: int, count: int) -> Data:
    """Some of the pictures of a whole array or difference, thinned where they are large."""
    if first < 0 or count < 1:
        raise OpscopeError("first must be at least 0 and count at least 1")
    step = -(-max(kind.height, kind.width) // _SIDE)
    room = (kind.height // step + 1) * (kind.width // step + 1) * kind.colours
    last = min(kind.count, first + count, first + max(1, _MOST // room))
    numbers = np.arange(first, max(first, last)) * kind.colours
    planes = (numbers[:, None] + np.arange(kind.colours)).reshape(-1)
    shown = picked.planes(planes)[:, ::step, ::step]
    shown = np.moveaxis(shown.reshape(-1, kind.colours, *shown.shape[1:]), 1, -1)
    return {
        **kind._asdict(),
        "first": first,
        "shown": shown.shape[0],
        "rows": shown.shape[1],
        "columns": shown.shape[2],
        "elements": plain(np.ascontiguousarray(shown)),
    }

"""Elements as a picture, and as a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opscope.arrays.numbers import Array, Data, about, plain, wide
from opscope.arrays.picked import Picked
from opscope.errors import OpscopeError

MOST_CELLS = 1 << 18
MOST_ELEMENTS = 1 << 20
_TOGETHER = 1 << 22
"""Elements of one row of cells that are looked at together."""


class Window(NamedTuple):
    """Some rows and columns; without a height or width, all from there on."""

    top: int = 0
    left: int = 0
    height: int | None = None
    width: int | None = None

    def within(self, picked: Picked) -> tuple[int, int, int, int]:
        """Top, bottom, left and right of what there is."""
        top, left = min(max(0, self.top), picked.rows), min(max(0, self.left), picked.columns)
        bottom = picked.rows if self.height is None else min(picked.rows, top + self.height)
        right = picked.columns if self.width is None else min(picked.columns, left + self.width)
        return top, max(top, bottom), left, max(left, right)


def tile(picked: Picked, rows: int, columns: int, window: Window) -> Data:
    """A window as at most so many cells, each with its extremes to seven digits."""
    if rows < 1 or columns < 1 or rows * columns > MOST_CELLS:
        raise OpscopeError(f"rows times columns must be between 1 and {MOST_CELLS}")
    top, bottom, left, right = window.within(picked)
    down, across = -(-(bottom - top) // rows) or 1, -(-(right - left) // columns) or 1
    found: dict[str, list[Any]] = {n: [] for n in ("low", "high", "nan", "posinf", "neginf")}
    if right > left:
        for start in range(top, bottom, down):
            _add_cells(found, picked, (start, min(bottom, start + down), left, right), across)
    wide_cells = -(-(right - left) // across)
    return {
        "rows": len(found["low"]) // wide_cells if wide_cells else 0,
        "columns": wide_cells if found["low"] else 0,
        "cell": [down, across],
        "top": top,
        "left": left,
        **found,
    }


def block(picked: Picked, window: Window) -> Data:
    """The elements of a window, row by row; of a difference also what it is of."""
    top, bottom, left, right = window.within(picked)
    size = (bottom - top) * (right - left)
    if size > MOST_ELEMENTS:
        raise OpscopeError(f"these are {size:,} elements; at most {MOST_ELEMENTS:,} at once")
    both = picked.both(top, bottom, left, right)
    return {
        "top": top,
        "left": left,
        "rows": bottom - top,
        "columns": right - left,
        "elements": plain(picked.part(top, bottom, left, right)),
        "now": plain(both[0]) if both else [],
        "before": plain(both[1]) if both else [],
    }


def slice_of(picked: Picked) -> Data:
    """All elements, in order."""
    if picked.size > MOST_ELEMENTS:
        raise OpscopeError(
            f"these are {picked.size:,} elements; at most {MOST_ELEMENTS:,} are given at once"
        )
    return {"shape": list(picked.shape), "elements": plain(picked.part(0, picked.rows))}


def _add_cells(
    found: dict[str, list[Any]], picked: Picked, place: tuple[int, int, int, int], across: int
) -> None:
    """Summarise one row of cells, some columns at a time."""
    top, bottom, left, right = place
    together = max(1, _TOGETHER // ((bottom - top) * across)) * across
    for start in range(left, right, together):
        part = wide(picked.part(top, bottom, start, min(right, start + together)))
        sides = np.arange(0, part.shape[1], across)
        low = np.minimum.reduceat(part.min(axis=0), sides)
        high = np.maximum.reduceat(part.max(axis=0), sides)
        if part.dtype.kind != "f" or (np.isfinite(low).all() and np.isfinite(high).all()):
            found["low"] += about(low).tolist()
            found["high"] += about(high).tolist()
            for name in ("nan", "posinf", "neginf"):
                found[name] += [0] * len(sides)
        else:
            _add_mixed(found, part, sides)


def _add_mixed(found: dict[str, list[Any]], part: Array, sides: Array) -> None:
    """Do the same where not all is finite: extremes are of what is, the rest is counted."""
    finite = np.isfinite(part)
    low = np.where(finite, part, np.inf).min(axis=0)
    high = np.where(finite, part, -np.inf).max(axis=0)
    found["low"] += _or_none(np.minimum.reduceat(low, sides))
    found["high"] += _or_none(np.maximum.reduceat(high, sides))
    for name, which in (("nan", np.isnan), ("posinf", np.isposinf), ("neginf", np.isneginf)):
        found[name] += np.add.reduceat(which(part).sum(axis=0), sides).tolist()


def _or_none(values: Array) -> list[float | None]:
    return [None if np.isinf(value) else float(value) for value in about(values)]

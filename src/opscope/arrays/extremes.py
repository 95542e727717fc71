"""The places of extreme elements and of those that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.arrays.numbers import Array, Data, one, wide
from opscope.arrays.picked import Picked

PLACES = ("min", "max", "nan", "posinf", "neginf")
_TESTS: dict[str, Callable[[Array], Array]] = {
    "nan": np.isnan,
    "posinf": np.isposinf,
    "neginf": np.isneginf,
}


def places(picked: Picked) -> Data:
    """Find the first least and largest elements, NaN, +Inf and -Inf; None for none.

    Each has its index in the whole array, and its row and column in the layout.
    """
    best: dict[str, tuple[int, Any]] = {}
    for box, part in picked.boxes():
        flat = wide(part).reshape(-1)
        start = picked.flat_start(box)
        ends = _ends_of(flat)
        for name, at in ends.items():
            if at is not None and _is_better(name, flat[at], best.get(name)):
                best[name] = (start + at, flat[at])
        if flat.dtype.kind == "f" and not _is_finite(flat, ends):
            for name, test in _TESTS.items():
                if name not in best and (found := test(flat)).any():
                    at = int(found.argmax())
                    best[name] = (start + at, flat[at])
    return {name: _place(picked, best.get(name)) for name in PLACES}


def _ends_of(flat: Array) -> dict[str, int | None]:
    """Find the first least and largest; NaN is neither."""
    low, high = int(flat.argmin()), int(flat.argmax())
    if flat.dtype.kind == "f" and np.isnan(flat[low]):
        if np.isnan(flat).all():
            return {"min": None, "max": None}
        low, high = int(np.nanargmin(flat)), int(np.nanargmax(flat))
    return {"min": low, "max": high}


def _is_finite(flat: Array, ends: dict[str, int | None]) -> bool:
    low, high = ends["min"], ends["max"]
    if low is None or high is None or not np.isfinite(flat[low]) or not np.isfinite(flat[high]):
        return False
    return not np.isnan(flat[int(flat.argmin())])


def _is_better(name: str, value: Any, best: tuple[int, Any] | None) -> bool:
    if best is None:
        return True
    return bool(value < best[1] if name == "min" else value > best[1])


def _place(picked: Picked, found: tuple[int, Any] | None) -> Data | None:
    if found is None:
        return None
    flat, value = found
    return {
        "index": picked.index_of(flat),
        "value": one(value),
        "row": flat // picked.columns,
        "column": flat % picked.columns,
    }

"""Looking into an array: slices, pictures, histograms; never more than was asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError

MOST_ELEMENTS = 1 << 20
MOST_CELLS = 1 << 18
MOST_BINS = 1000
_PART = 1 << 22
"""Elements looked at together."""
_WHOLE = r"\s*(-?[0-9]{1,18})?\s*"
_INDEX = re.compile(f"{_WHOLE}(?:(:){_WHOLE}(?:(:){_WHOLE})?)?")
Array = NDArray[Any]
Data = dict[str, Any]


def real(array: Array) -> Array:
    """Real numbers as they are, complex ones as their magnitudes."""
    return np.abs(array) if array.dtype.kind == "c" else array


def parse_index(text: str, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """An index such as `0, :, 2:10, ::4`, checked against a shape.

    >>> parse_index("-1, ::2", (3, 8))
    (-1, slice(None, None, 2))
    """
    words = text.split(",") if text.strip() else []
    if len(words) > len(shape):
        raise OpscopeError(f"{len(words)} indices for {len(shape)} dimensions")
    return tuple(_index(word, size) for word, size in zip(words, shape, strict=False))


def slice_of(array: Array, index: str) -> Data:
    """The elements at an index, in order."""
    found = array[parse_index(index, array.shape)]
    if found.size > MOST_ELEMENTS:
        raise OpscopeError(
            f"these are {found.size:,} elements; at most {MOST_ELEMENTS:,} are given at once"
        )
    return {"shape": list(found.shape), "elements": np.ravel(found).tolist()}


def tile(
    array: Array,
    index: str,
    rows: int,
    columns: int,
    top: int = 0,
    left: int = 0,
    height: int | None = None,
    width: int | None = None,
) -> Data:
    """A part of a value as at most so many cells, each with its extremes.

    The value is a matrix: its last axis is the columns, all before are the rows, one after the
    other.
    """
    chosen = array[parse_index(index, array.shape)]
    matrix = chosen.reshape(-1, chosen.shape[-1]) if chosen.ndim else chosen.reshape(1, 1)
    bottom = matrix.shape[0] if height is None else min(matrix.shape[0], top + max(1, height))
    right = matrix.shape[1] if width is None else min(matrix.shape[1], left + max(1, width))
    part = matrix[max(0, top) : bottom, max(0, left) : right]
    if part.size == 0:
        return {
            "rows": 0,
            "columns": 0,
            "cell": [1, 1],
            "low": [],
            "high": [],
            "nan": [],
            "posinf": [],
            "neginf": [],
        }
    if rows < 1 or columns < 1 or rows * columns > MOST_CELLS:
        raise OpscopeError(f"rows times columns must be between 1 and {MOST_CELLS}")
    down, across = -(-part.shape[0] // rows), -(-part.shape[1] // columns)
    return _cells(part, down, across)


def histogram(array: Array, bins: int = 60, log: bool = False) -> Data:
    """How many finite elements lie in equal intervals of x, or of log10 |x|."""
    if not 1 <= bins <= MOST_BINS:
        raise OpscopeError(f"bins = {bins}: must be between 1 and {MOST_BINS}")
    flat = array.reshape(-1)
    low, high = np.inf, -np.inf
    for part in _parts(flat):
        scaled = _scaled(part, log)
        if scaled.size:
            low, high = min(low, float(scaled.min())), max(high, float(scaled.max()))
    if low > high:
        low, high = 0.0, 1.0
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    counts = np.zeros(bins, np.int64)
    for part in _parts(flat):
        counts += np.histogram(_scaled(part, log), edges)[0]
    floats = flat.dtype.kind == "f"
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "nan": int(np.isnan(flat).sum()) if floats else 0,
        "posinf": int(np.isposinf(flat).sum()) if floats else 0,
        "neginf": int(np.isneginf(flat).sum()) if floats else 0,
    }


def places(array: Array) -> Data:
    """Where its first least and largest elements and its first NaN are; None for none."""
    flat = array.reshape(-1)
    return {what: _place(flat, array.shape, what) for what in ("min", "max", "nan")}


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


def _parts(flat: Array) -> list[Array]:
    return [flat[i : i + _PART] for i in range(0, len(flat), _PART)]


def _scaled(part: Array, log: bool) -> Array:
    finite = part[np.isfinite(part)] if part.dtype.kind == "f" else part
    numbers = finite.astype(np.float64)
    if not log:
        return numbers
    sizes = np.abs(numbers)
    return np.log10(sizes[sizes > 0])


def _place(flat: Array, shape: tuple[int, ...], what: str) -> Data | None:
    """Where the first extreme or NaN is."""
    best: tuple[int, Any] | None = None
    for number, part in enumerate(_parts(flat)):
        is_nan = np.isnan(part) if part.dtype.kind == "f" else np.zeros(len(part), bool)
        if what == "nan":
            if is_nan.any():
                best = (number * _PART + int(is_nan.argmax()), np.nan)
                break
            continue
        if is_nan.all():
            continue
        find = np.nanargmin if what == "min" else np.nanargmax
        at = int(find(part))
        better = best is None or (part[at] < best[1] if what == "min" else part[at] > best[1])
        if better:
            best = (number * _PART + at, part[at].item())
    if best is None:
        return None
    return {"index": [int(i) for i in np.unravel_index(best[0], shape)], "value": best[1]}


def _cells(part: Array, down: int, across: int) -> Data:
    starts, sides = np.arange(0, part.shape[0], down), np.arange(0, part.shape[1], across)
    floats = part.dtype.kind == "f"
    found: dict[str, list[Any]] = {n: [] for n in ("low", "high", "nan", "posinf", "neginf")}
    for start in starts.tolist():
        rows = part[start : start + down].astype(np.float64, copy=False)
        finite = np.isfinite(rows) if floats else np.ones(rows.shape, bool)
        low = np.where(finite, rows, np.inf).min(axis=0)
        high = np.where(finite, rows, -np.inf).max(axis=0)
        found["low"] += _or_none(np.minimum.reduceat(low, sides))
        found["high"] += _or_none(np.maximum.reduceat(high, sides))
        for name, which in (
            ("nan", np.isnan),
            ("posinf", np.isposinf),
            ("neginf", np.isneginf),
        ):
            counts = which(rows).sum(axis=0) if floats else np.zeros(rows.shape[1], np.int64)
            found[name] += np.add.reduceat(counts, sides).tolist()
    return {
        "rows": len(starts),
        "columns": len(sides),
        "cell": [down, across],
        "low": found["low"],
        "high": found["high"],
        "nan": found["nan"],
        "posinf": found["posinf"],
        "neginf": found["neginf"],
    }


def _or_none(values: Array) -> list[float | None]:
    return [None if np.isinf(value) else float(value) for value in values]

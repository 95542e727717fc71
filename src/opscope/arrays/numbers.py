"""Elements as plain numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Data = dict[str, Any]
_EXACT = 1 << 53


def real(array: Array) -> Array:
    """Real numbers as they are, complex ones as their magnitudes."""
    return np.abs(array) if array.dtype.kind == "c" else array


def wide(array: Array) -> Array:
    """Elements that NumPy is fast with: float16 as float32, bools as bytes."""
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def plain(numbers: Array) -> list[Any]:
    """Elements for JSON: NaN, infinities and integers that it has not exactly are texts.

    >>> plain(np.array([1.5, np.nan, -np.inf]))
    [1.5, 'NaN', '-Infinity']
    """
    found: list[Any] = numbers.reshape(-1).tolist()
    kind = numbers.dtype.kind
    if kind == "f" and not np.isfinite(numbers).all():
        return [each if math.isfinite(each) else _word(each) for each in found]
    if kind in "iu" and numbers.dtype.itemsize == 8:
        return [each if -_EXACT <= each <= _EXACT else str(each) for each in found]
    return found


def one(number: Any) -> Any:
    """A single element, in the same way."""
    return plain(np.asarray(number).reshape(1))[0]


def _word(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def about(numbers: Array) -> Array:
    """Floats with seven digits, which are half as long to send; what is not finite stays.

    >>> about(np.array([0.12345678901, -np.inf, 0.0])).tolist()
    [0.1234568, -inf, 0.0]
    """
    found = numbers.astype(np.float64)
    sizes = np.abs(found)
    usual = (sizes > 1e-250) & (sizes < 1e250)
    unit = 10.0 ** (6 - np.floor(np.log10(sizes[usual])))
    found[usual] = np.round(found[usual] * unit) / unit
    return found

"""Tensors as `Print` shows them: shape, dtype and values, on one line or several."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.stats.torch_values import dtype_name, shape_of, to_numpy

_DIGITS = {"float64": 16, "float32": 8, "complex128": 16, "complex64": 8}
"""Digits after the point; narrower types have four."""
_CAPITALS = {"bfloat": "BFloat", "uint": "UInt"}


def tensor_text(tensor: Any, limit: int) -> str:
    """A tensor in words; of more than `limit` elements only the outer ones are shown.

    >>> import torch
    >>> print(tensor_text(torch.ones(2, 1, dtype=torch.int32), 1000))
    Tensor(shape=[2, 1], dtype=Int32, value=
    [[1]
     [1]])
    """
    shape = ", ".join(map(str, shape_of(tensor)))
    head = f"Tensor(shape=[{shape}], dtype={shown_dtype(tensor)}, value="
    array = to_numpy(tensor)
    if array is None:
        return f"{head}\n{tensor})"
    if array.size == 0:
        return f"{head}[])"
    newline = "\n" if array.ndim > 1 else ""
    return f"{head}{newline}{_values(array, dtype_name(tensor), limit)})"


def shown_dtype(tensor: Any) -> str:
    """The dtype as files of a dump spell it: Float32, BFloat16, UInt8, Bool."""
    name = dtype_name(tensor)
    for start, capital in _CAPITALS.items():
        if name.startswith(start):
            return capital + name.removeprefix(start)
    return name[:1].upper() + name[1:]


def _values(array: NDArray[Any], dtype: str, limit: int) -> str:
    if array.ndim == 0:
        return _scalar(array[()], dtype)
    digits = _DIGITS.get(dtype, 4)
    return np.array2string(
        array,
        threshold=limit,
        max_line_width=sys.maxsize,
        formatter={
            "float_kind": lambda number: _real(number, digits),
            "complex_kind": lambda number: _complex(number, digits),
        },
    )


def _scalar(value: Any, dtype: str) -> str:
    if isinstance(value, np.floating):
        return f"{value:.{_DIGITS.get(dtype, 4)}g}"
    return str(value)


def _real(number: Any, digits: int) -> str:
    return f"{number: .{digits}e}" if np.isfinite(number) else f"{number:>{digits + 7}}"


def _complex(number: Any, digits: int) -> str:
    return f"{_real(number.real, digits)}{number.imag:+.{digits}e}j"

"""Numbers of arrays that were saved: by the native library, or by NumPy where there is none.

Library calls leave other Python threads running.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.stats.native_cpu import Strided, load
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import DTYPES, ROW_BYTES, write_numbers
from opscope.stats.two_tensors import Difference, difference_of_arrays

Array = NDArray[Any]
Range = tuple[float, float]
AllcloseTolerance = tuple[float, float, bool]
"""rtol, atol and whether NaN equals NaN."""


def measure(array: Array, address: int, ends: Range | None = None, threads: int = 1) -> int:
    """Fill in the numbers of the record at `address`; returns how many elements are in a range."""
    library, memory = load(), _strided(array)
    if library is not None and memory is not None:
        inside = ctypes.c_uint64()
        bounds = (ctypes.c_double * 2)(*ends) if ends else None
        counted = ctypes.byref(inside) if ends else None
        if not library.opscope_row(*memory, threads, bounds, counted, address):
            return inside.value
    record: Any = (ctypes.c_ubyte * ROW_BYTES).from_address(address)
    write_numbers(record, 0, row_of(array))
    return count_in_range(array, ends) if ends else 0


def count_in_range(array: Array, ends: Range) -> int:
    """Return how many elements (|x| if complex) are from one end to the other, included."""
    if array.dtype.kind == "c":
        array = np.abs(array.astype(np.complex128))
    return int(np.count_nonzero((array >= ends[0]) & (array <= ends[1])))


def compare(
    now: Array, before: Array, tolerance: AllcloseTolerance, threads: int = 1
) -> Difference:
    """Return how far two arrays of one shape are apart."""
    library = load()
    one, other = _strided(now), _strided(before)
    if library is not None and one is not None and other is not None and one.dtype == other.dtype:
        out = (ctypes.c_double * 7)()
        rtol, atol, equal_nan = tolerance
        if not library.opscope_pair(
            *(one.address, other.address, one.dtype, one.ndim),
            *(one.sizes, one.strides, other.strides),
            *(rtol, atol, int(equal_nan), threads, out),
        ):
            mean, mean_abs_b, largest, *counts = out
            return Difference(mean, mean_abs_b, largest, *map(int, counts))
    return difference_of_arrays(now, before, *tolerance)


def _strided(array: Array) -> Strided | None:
    """An array as the library takes it; None where there is no dtype or step for it."""
    layout = _layout(array.dtype, array.shape, array.strides)
    return None if layout is None else Strided(array.ctypes.data, *layout)


@functools.lru_cache(maxsize=8192)
def _layout(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, int, Any, Any] | None:
    """All but the address; a dump has the same few thousands of times."""
    number, size = DTYPES.get(dtype.name), dtype.itemsize
    if number is None or not dtype.isnative or any(step % size for step in strides):
        return None
    integers = ctypes.c_int64 * len(shape)
    return number, len(shape), integers(*shape), integers(*(step // size for step in strides))

"""Numbers about two tensors of one shape: how far apart they are, element by element."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.stats.native_cpu import load, strided
from opscope.stats.torch_values import to_numpy, unsupported_reason

_BLOCK = 8192


class Difference(NamedTuple):
    """The distance of `a` from `b`; docs/statistics.md defines each number."""

    mean: float
    """The mean of |a-b| over the pairs of finite elements."""
    mean_abs_b: float
    """The mean of |b| over the same pairs."""
    max: float
    """The largest |a-b| of the pairs without NaN."""
    outside: int
    """The number of pairs further apart than atol + rtol * |b|."""
    compared: int
    """The number of pairs of finite elements."""
    nan_a: int
    nan_b: int


def difference(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    equal_nan: bool = False,
    threads: int = 1,
) -> Difference:
    """Return how far two CPU tensors of one shape are apart, natively where they have one dtype.

    >>> import torch
    >>> difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])).mean
    1.0
    """
    if a.shape != b.shape:
        raise ValueError(f"tensors of shape {tuple(a.shape)} and {tuple(b.shape)} have no pairs")
    if a.dtype == b.dtype:
        found = _native(a, b, rtol, atol, equal_nan, threads)
        if found is not None:
            return found
    return difference_of_arrays(_array(a), _array(b), rtol, atol, equal_nan)


def _native(
    a: Any, b: Any, rtol: float, atol: float, equal_nan: bool, threads: int
) -> Difference | None:
    library = load()
    first, second = strided(a), strided(b)
    # Whether parts of complex numbers are to be negated does not show in memory.
    if library is None or first is None or second is None or a.is_conj() or b.is_conj():
        return None
    if a.is_neg() or b.is_neg():
        return None
    out = (ctypes.c_double * 7)()
    failed = library.opscope_pair(
        *(first.address, second.address, first.dtype, first.ndim),
        *(first.sizes, first.strides, second.strides),
        *(rtol, atol, int(equal_nan), threads, out),
    )
    if failed:
        return None
    mean, mean_abs_b, largest, *counts = out
    return Difference(mean, mean_abs_b, largest, *map(int, counts))


def _array(tensor: Any) -> NDArray[Any]:
    array = to_numpy(tensor)
    if array is None:
        raise TypeError(f"no statistics for {unsupported_reason(tensor)}")
    return array


def difference_of_arrays(
    a: NDArray[Any], b: NDArray[Any], rtol: float, atol: float, equal_nan: bool
) -> Difference:
    """The same by NumPy; arrays of two dtypes are compared as float64 or complex128."""
    first, second = a.ravel(), b.ravel()
    parts = []
    with np.errstate(all="ignore"):
        for start in range(0, first.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            parts.append(_block(first[block], second[block], rtol, atol, equal_nan))
        compared = sum(part.compared for part in parts)
        return Difference(
            _mean([part.distances for part in parts], compared),
            _mean([part.sizes for part in parts], compared),
            max((part.max for part in parts if not math.isnan(part.max)), default=math.nan),
            sum(part.outside for part in parts),
            compared,
            sum(part.nan_a for part in parts),
            sum(part.nan_b for part in parts),
        )


class _Part(NamedTuple):
    distances: NDArray[Any]
    sizes: NDArray[Any]
    max: float
    outside: int
    compared: int
    nan_a: int
    nan_b: int


def _block(a: NDArray[Any], b: NDArray[Any], rtol: float, atol: float, equal_nan: bool) -> _Part:
    equal = a == b
    distance, size = _distance(a, b)
    distance[equal] = 0.0
    nan_a, nan_b = _is_nan(a), _is_nan(b)
    finite = np.isfinite(_modulus(a)) & np.isfinite(size)
    near = equal | (finite & (distance <= atol + rtol * size))
    if equal_nan:
        near |= nan_a & nan_b
    known = distance[~(nan_a | nan_b)]
    return _Part(
        distance[finite],
        size[finite],
        float(known.max()) if known.size else math.nan,
        int(np.count_nonzero(~near)),
        int(np.count_nonzero(finite)),
        int(np.count_nonzero(nan_a)),
        int(np.count_nonzero(nan_b)),
    )


def _distance(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """|a-b| and |b| as float64; integers of one dtype are subtracted exactly."""
    if a.dtype == b.dtype and a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        first, second = a.view(np.uint64), b.view(np.uint64)
        distance = np.where(a < b, second - first, first - second).astype(np.float64)
        return distance, np.where(b < 0, 0 - second, second).astype(np.float64)
    first, second = _wide(a), _wide(b)
    distance = _modulus(first - second)
    if "c" in (a.dtype.kind, b.dtype.kind):
        # An element with an infinite part is at infinity, in whatever direction.
        moduli = _modulus(a), _modulus(b)
        infinite = np.isinf(moduli[0]) | np.isinf(moduli[1])
        distance[infinite & ~np.isnan(moduli[0]) & ~np.isnan(moduli[1])] = np.inf
    return distance, _modulus(second)


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _modulus(x: NDArray[Any]) -> NDArray[Any]:
    modulus: NDArray[Any] = np.abs(_wide(x))
    return modulus


def _is_nan(x: NDArray[Any]) -> NDArray[Any]:
    is_nan: NDArray[Any] = np.isnan(_modulus(x))
    return is_nan


def _mean(parts: list[NDArray[Any]], count: int) -> float:
    """The mean, also where the sum is beyond float64."""
    if not count:
        return math.nan
    total = math.fsum(float(np.add.reduce(part)) for part in parts)
    if math.isfinite(total):
        return total / count
    scale = 2.0**-70
    return math.fsum(float(np.add.reduce(part * scale)) for part in parts) / count / scale

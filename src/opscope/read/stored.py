"""Arrays on disk: where each lies, and how to look at it without copying it."""

from __future__ import annotations

import ast
import functools
import math
import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.read.small_floats import is_small_float, widened
from opscope.regular import open_regular, why

Array = NDArray[Any]

NPY_MAGIC = b"\x93NUMPY"
_SMALL = 1 << 18
"""Files up to so many bytes are read at once: a map costs more than a copy."""
_HEADER = 10_000
"""Longer headers NumPy itself does not read."""
_NUMBERS = "biufc"
_DAMAGE = (
    *(ValueError, TypeError, LookupError, SyntaxError, AttributeError),
    *(RecursionError, MemoryError, OverflowError),  # what a hostile header makes of the parser
)


class Stored(NamedTuple):
    """An array in a file; `dtype` is empty where the file's own header tells."""

    path: str
    start: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    code: str = ""
    """The name that safetensors has for its dtype, if that tells more."""


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int


def open_array(stored: Stored) -> Array:
    """The array, read-only; an error says what is wrong with its file."""
    try:
        descriptor = open_regular(stored.path)
        try:
            data = _bytes_of(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OpscopeError(f"{stored.path}: {why(error)}") from None
    try:
        return _array_in(data, stored)
    except _DAMAGE as error:
        raise OpscopeError(f"{stored.path} is damaged: {error}") from None


def size_of(stored: Stored) -> int:
    """About how many bytes the array has; 0 if its file is gone."""
    if stored.dtype:
        return math.prod(stored.shape) * np.dtype(stored.dtype).itemsize
    try:
        return Path(stored.path).stat().st_size
    except OSError:
        return 0


def _bytes_of(descriptor: int) -> Any:
    size = os.fstat(descriptor).st_size
    if size <= _SMALL:
        return os.read(descriptor, size)
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)


def _array_in(data: Any, stored: Stored) -> Array:
    header = _header_of(data) if not stored.dtype else None
    if header is None:
        dtype = np.dtype(stored.dtype)
        header = _Header(dtype, stored.shape, False, stored.start)
    array: Array = np.ndarray(
        header.shape, header.dtype, data, header.start, order="F" if header.fortran else "C"
    )
    if is_small_float(stored.code):
        return widened(array, stored.code)
    return array if array.flags.aligned else array.copy()  # a pack has no gaps between values


def _header_of(data: Any) -> _Header:
    if data[:6] != NPY_MAGIC:
        raise ValueError("it does not begin as .npy files do")
    start = 10 if data[6] == 1 else 12
    end = start + int.from_bytes(data[8:start], "little")
    if end - start > _HEADER:
        raise ValueError("its header is too long")
    return _parsed(bytes(data[start:end]), end)


@functools.lru_cache(maxsize=65536)
def _parsed(text: bytes, end: int) -> _Header:
    """Return what a header says; a dump has the same few thousands of times."""
    found = ast.literal_eval(text.decode("latin1").strip())
    dtype = np.dtype(found["descr"])
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"its elements are no numbers but {dtype}")
    return _Header(dtype, tuple(found["shape"]), bool(found["fortran_order"]), end)

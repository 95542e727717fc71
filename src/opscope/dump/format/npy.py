"""Arrays as the bytes of a `.npy` file, format 1.0."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

Array = NDArray[Any]


@lru_cache(maxsize=4096)
def header(dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool) -> bytes:
    """Make what NumPy writes before the data, format 1.0."""
    buffer = io.BytesIO()
    npy_format.write_array_header_1_0(
        buffer,
        {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape},
    )
    return buffer.getvalue()


def dense(array: Array) -> Array:
    """The array itself when its memory can be written as it lies, else a copy in C order."""
    if array.flags.forc:
        return array
    packed: Array = np.ascontiguousarray(array)
    return packed


def size(array: Array) -> int:
    """The bytes of the file of a dense array."""
    return len(header(array.dtype, array.shape, array.flags.fnc)) + array.nbytes


def buffers(array: Array) -> tuple[bytes, Array]:
    """The header and the data of a dense array, ready for `writev`."""
    fortran = array.flags.fnc
    return header(array.dtype, array.shape, fortran), array.T if fortran else array

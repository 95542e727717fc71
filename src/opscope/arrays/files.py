"""A slice of an array as a file, part by part."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from opscope.arrays.index import parse_index
from opscope.arrays.numbers import Array
from opscope.arrays.picked import PART, boxes_of
from opscope.errors import OpscopeError
from opscope.safetensors_file import CODES, Entry, encode_head, framed


def npy_parts(array: Array, index: str = "") -> Iterator[bytes]:
    """The bytes of a .npy file."""
    chosen = _chosen(array, index)
    head = io.BytesIO()
    about = {
        "descr": np.lib.format.dtype_to_descr(chosen.dtype.newbyteorder("<")),
        "fortran_order": False,
        "shape": chosen.shape,
    }
    np.lib.format.write_array_header_1_0(head, about)
    return _with_head(head.getvalue(), chosen)


def safetensors_parts(array: Array, index: str = "", name: str = "value") -> Iterator[bytes]:
    """The bytes of a safetensors file with one tensor."""
    chosen = _chosen(array, index)
    code = CODES.get(chosen.dtype.name)
    if code is None:
        raise OpscopeError(f"safetensors has no {chosen.dtype}; take the .npy file")
    entry = Entry(code, chosen.shape, 0, chosen.nbytes)
    return _with_head(framed(encode_head({name: entry})), chosen)


def _chosen(array: Array, index: str) -> Array:
    return np.asarray(array[parse_index(index, array.shape)])


def _with_head(head: bytes, chosen: Array) -> Iterator[bytes]:
    yield head
    for box in boxes_of(chosen.shape, PART):
        part = chosen[box]
        yield part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes()

"""An array, or a slice of one, as a file, part by part."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from opscope.arrays.numbers import Array
from opscope.arrays.picked import PART, boxes_of
from opscope.errors import OpscopeError
from opscope.safetensors_file import CODES, Entry, encode_head, framed


def npy_parts(chosen: Array) -> Iterator[bytes]:
    """The bytes of a .npy file."""
    head = io.BytesIO()
    about = {
        "descr": np.lib.format.dtype_to_descr(chosen.dtype.newbyteorder("<")),
        "fortran_order": False,
        "shape": chosen.shape,
    }
    np.lib.format.write_array_header_1_0(head, about)
    return _with_head(head.getvalue(), chosen)


def safetensors_parts(chosen: Array, name: str = "value") -> Iterator[bytes]:
    """The bytes of a safetensors file with one tensor."""
    code = CODES.get(chosen.dtype.name)
    if code is None:
        raise OpscopeError(f"safetensors has no {chosen.dtype}; take the .npy file")
    entry = Entry(code, chosen.shape, 0, chosen.nbytes)
    return _with_head(framed(encode_head({name: entry})), chosen)


def _with_head(head: bytes, chosen: Array) -> Iterator[bytes]:
    yield head
    for box in boxes_of(chosen.shape, PART):
        part = chosen[box]
        yield part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes()

"""The head of a safetensors file: which arrays it holds and where."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.read.checked import DamagedError, Fields
from opscope.read.stored import Stored
from opscope.regular import LIMIT, open_regular

NUMPY = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "BF16": "uint16",
    "F8_E4M3": "uint8",
    "F8_E5M2": "uint8",
}
"""dtypes of safetensors → those of NumPy; what NumPy does not have, as bits."""
_METADATA = "__metadata__"


class Head(NamedTuple):
    """Arrays by name, each with the dtype it has in the file, and the file's own notes."""

    arrays: dict[str, tuple[str, Stored]]
    metadata: dict[str, str]


def read_head(path: Path | str) -> Head:
    """The head of a file; an error says what is wrong with it. Damaged entries are left out."""
    try:
        with open(open_regular(path), "rb") as file:
            size, whole = int.from_bytes(file.read(8), "little"), os.fstat(file.fileno()).st_size
            if size > min(whole, LIMIT):
                raise ValueError("its head is longer than the file")
            header = json.loads(file.read(size))
        if not isinstance(header, dict):
            raise ValueError("its head is no JSON object")
        metadata = Fields(header, str(path)).texts(_METADATA) if _METADATA in header else {}
    except (OSError, ValueError, RecursionError) as error:
        raise OpscopeError(f"{path} cannot be read: {_why(error)}") from None
    arrays = {}
    for name in header:
        if name != _METADATA:
            try:
                arrays[name] = _array(str(path), Fields(header, "head"), name, 8 + size, whole)
            except DamagedError as error:
                say_once(f"{path} {error}; left out")
    return Head(arrays, metadata)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its head is nested too deeply"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _array(path: str, head: Fields, name: str, start: int, whole: int) -> tuple[str, Stored]:
    entry = Fields(head.mapping(name), f"head: {name}")
    code = entry.text("dtype")
    if code not in NUMPY:
        entry.refuse("dtype", f"must be one of {', '.join(NUMPY)}")
    shape = tuple(entry.integers("shape", 1 << 63))
    offsets = entry.integers("data_offsets", 1 << 63)
    size = math.prod(shape) * np.dtype(NUMPY[code]).itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != size or start + offsets[1] > whole:
        entry.refuse("data_offsets", f"must be the places of {size} bytes in the file")
    return code, Stored(path, start + offsets[0], NUMPY[code], shape)

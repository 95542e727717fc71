"""Files of the safetensors format, without needing that package.

Eight bytes with the size of a JSON head, the head, which says where in the data each tensor is,
and the data without gaps.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.atomic_files import write_whole
from opscope.regular import LIMIT, open_regular

_NUMPY = {
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
CODES = _NUMPY | {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
"""Names of dtypes → what the format calls them."""
DTYPES = {code: name for name, code in _NUMPY.items()}
DTYPES |= {"BF16": "uint16", "F8_E4M3": "uint8", "F8_E5M2": "uint8"}
"""The format's names of dtypes → those of NumPy; what NumPy does not have, as bits."""

SIZE = struct.Struct("<Q")
_METADATA = "__metadata__"
_ALIGNMENT = 8
_LARGEST = 1 << 63


class Entry(NamedTuple):
    """The place of a tensor in the data."""

    code: str
    shape: tuple[int, ...]
    start: int
    end: int


class Head(NamedTuple):
    """The head of a file: what it says of itself."""

    entries: dict[str, Entry]
    damaged: dict[str, str]
    """The tensors that cannot be read, and what is wrong with them."""
    metadata: dict[str, str]
    start: int
    """The place in the file where the data begins."""


def encode_head(entries: Mapping[str, Entry], metadata: Mapping[str, str] | None = None) -> bytes:
    """The JSON head of a file."""
    content: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    for name, (code, shape, start, end) in entries.items():
        content[name] = {"dtype": code, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(content, separators=(",", ":")).encode()
    return text.ljust(-(-len(text) // _ALIGNMENT) * _ALIGNMENT)


def framed(head: bytes, room: int = 0) -> bytes:
    """A head as a file begins with it, filled up to `room` bytes if it has fewer."""
    head = head.ljust(room)
    return SIZE.pack(len(head)) + head


def read_head(path: Path | str, follow: bool = False) -> Head:
    """The head of a file; OSError, or ValueError that says what is wrong with it."""
    with open(open_regular(path, follow), "rb") as file:
        first, whole = file.read(SIZE.size), os.fstat(file.fileno()).st_size
        if len(first) < SIZE.size:
            raise ValueError("it is too short")
        (size,) = SIZE.unpack(first)
        if size > min(whole, LIMIT):
            raise ValueError("its head is longer than the file")
        text = file.read(size)
    content = _parsed(text)
    metadata = content.pop(_METADATA, {})
    if type(metadata) is not dict or not all(type(each) is str for each in metadata.values()):
        raise ValueError("its metadata is no object of texts")
    start = SIZE.size + size
    entries, damaged = {}, {}
    for name, entry in content.items():
        try:
            entries[name] = _entry(entry, whole - start)
        except ValueError as error:
            damaged[name] = str(error)
    return Head(entries, damaged, metadata, start)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("its head is nested too deeply") from None
    if type(content) is not dict:
        raise ValueError("its head is no JSON object")
    return content


def _entry(entry: object, room: int) -> Entry:
    """Return where a tensor is, if it can be there."""
    if type(entry) is not dict:
        raise ValueError("must be an object")
    code: Any = entry.get("dtype")
    shape, offsets = _sizes(entry.get("shape")), _sizes(entry.get("data_offsets"))
    if type(code) is not str or code not in DTYPES:
        raise ValueError(f'"dtype" must be one of {", ".join(DTYPES)}')
    if shape is None:
        raise ValueError('"shape" must be a list of whole numbers')
    size = math.prod(shape) * np.dtype(DTYPES[code]).itemsize
    start, end = offsets if offsets is not None and len(offsets) == 2 else (0, -1)
    if end - start != size or end > room:
        raise ValueError(f'"data_offsets" must be the places of {size} bytes in the file')
    return Entry(code, shape, start, end)


def _sizes(values: Any) -> tuple[int, ...] | None:
    """A list of numbers from 0 on; None if it is no such list."""
    is_list = type(values) is list
    if is_list and all(type(each) is int and 0 <= each < _LARGEST for each in values):
        return tuple(values)
    return None


def can_save(tensor: Any) -> bool:
    """Tell whether a torch tensor has a place in the format, and numbers at all."""
    import torch

    has_numbers = not tensor.is_meta and not torch.nn.parameter.is_lazy(tensor)
    return has_numbers and _dtype_of(tensor) in CODES and tensor.layout == torch.strided


def save_tensors(
    path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write torch tensors; the file appears complete or not at all."""
    import torch

    entries, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        end = offset + flat.numel()
        entries[name] = Entry(CODES[_dtype_of(tensor)], tuple(tensor.shape), offset, end)
        parts.append(flat.numpy().data if end > offset else b"")
        offset = end
    write_whole(path, framed(encode_head(entries, metadata)), *parts)


def _dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")

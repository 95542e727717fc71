"""The head of a safetensors file: which arrays it holds and where."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from opscope.errors import OpscopeError
from opscope.read.stored import Stored

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


class Head(NamedTuple):
    """Arrays by name, each with the dtype it has in the file, and the file's own notes."""

    arrays: dict[str, tuple[str, Stored]]
    metadata: dict[str, str]


def read_head(path: Path | str) -> Head:
    """The head of a file; an error says what is wrong with it."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > os.fstat(file.fileno()).st_size:
                raise ValueError("its head is longer than the file")
            header: dict[str, Any] = json.loads(file.read(size))
        metadata = header.pop("__metadata__", {})
        return Head({n: _array(str(path), e, 8 + size) for n, e in header.items()}, metadata)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OpscopeError(f"{path} cannot be read: {error}") from None


def _array(path: str, entry: dict[str, Any], start: int) -> tuple[str, Stored]:
    code, shape = entry["dtype"], tuple(entry["shape"])
    return code, Stored(path, start + entry["data_offsets"][0], NUMPY[code], shape)

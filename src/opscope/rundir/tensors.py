"""Tensors in a file of the safetensors format, without needing that package."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SIZE = struct.Struct("<Q")
_CODES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.float8_e4m3fn": "F8_E4M3",
    "torch.float8_e5m2": "F8_E5M2",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.int16": "I16",
    "torch.int8": "I8",
    "torch.uint8": "U8",
    "torch.uint16": "U16",
    "torch.uint32": "U32",
    "torch.uint64": "U64",
    "torch.bool": "BOOL",
}


def can_save(tensor: Any) -> bool:
    """Whether a tensor has a place in the format, and numbers at all."""
    import torch

    has_numbers = not tensor.is_meta and not torch.nn.parameter.is_lazy(tensor)
    return has_numbers and str(tensor.dtype) in _CODES and tensor.layout == torch.strided


def save_tensors(
    path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write torch tensors; the file appears complete or not at all."""
    import torch

    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, offset = [], 0
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        end = offset + flat.numel()
        shape = list(tensor.shape)
        header[name] = {
            "dtype": _CODES[str(tensor.dtype)],
            "shape": shape,
            "data_offsets": [offset, end],
        }
        parts.append(flat)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(_SIZE.pack(len(text)))
            file.write(text)
            for flat in parts:
                file.write(flat.numpy().data if flat.numel() else b"")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

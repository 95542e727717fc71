"""The tensors that a ring holds by value: the last batch, and random states."""

from __future__ import annotations

from typing import Any, NamedTuple

from opscope.record.reading import RingReader
from opscope.safetensors_file import CODES, Entry, encode_head, framed

_WIDTHS = {"bool": 1, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


class HeldTensor(NamedTuple):
    """A tensor and its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    content: bytes


def held_tensors(ring: RingReader, blob: str) -> list[HeldTensor] | None:
    """The tensors of a blob; None if there are none, or the ring does not say what they are."""
    found = ring.blob(blob)
    return None if found is None else _cut(*found)


def _cut(about: dict[str, Any], data: bytes) -> list[HeldTensor] | None:
    tensors: list[HeldTensor] = []
    at = 0
    for header in about.get("tensors", ()):
        dtype, size = str(header.get("dtype")), _size(header)
        if dtype not in CODES or size is None or at + size > len(data):
            return None
        shape = tuple(header["shape"])
        tensors.append(HeldTensor(str(header["name"]), dtype, shape, data[at : at + size]))
        at += size
    return tensors


def as_safetensors(ring: RingReader, blob: str) -> bytes | None:
    """The same as a safetensors file."""
    found = ring.blob(blob)
    tensors = None if found is None else _cut(*found)
    if tensors is None or found is None:
        return None
    entries: dict[str, Entry] = {}
    at = 0
    for each in tensors:
        end = at + len(each.content)
        entries[each.name] = Entry(CODES[each.dtype], each.shape, at, end)
        at = end
    head = encode_head(entries, {"step": str(found[0].get("step"))})
    return framed(head) + b"".join(each.content for each in tensors)


def _size(header: dict[str, Any]) -> int | None:
    dtype = str(header.get("dtype"))
    digits = "".join(c for c in dtype if c.isdigit())
    width = _WIDTHS.get(dtype) or (int(digits) // 8 if digits else 0)
    count = 1
    for extent in header.get("shape", ()):
        if not isinstance(extent, int) or extent < 0:
            return None
        count *= extent
    return count * width if width else None

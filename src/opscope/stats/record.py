"""One row as 128 bytes, in memory and on disk: little-endian, valid once its first byte is set."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.native import shared
from opscope.stats.row import Row

ROW_BYTES = shared.RECORD_BYTES
VALID = 1
INPUT, OUTPUT = shared.INPUT, shared.OUTPUT
FLOAT, INT, UINT = shared.FLOAT, shared.INT, shared.UINT
"""The type that min and max of a row are stored in: float64, int64 or uint64."""
DTYPES = shared.DTYPES
"""dtype name → its number, which is torch's own (`c10::ScalarType`)."""

HEAD = struct.Struct("<BBBxIiIII")
"""valid, io, kind, slot, step, node, call, shape: what a record begins with."""
_FIELDS = shared.RECORD_FIELDS
KIND = _FIELDS["kind"][1]
"""The byte of a record at which its kind is."""
NUMBERS = shared.NUMBERS
"""The byte of a record at which its numbers begin."""
_NUMBERS = {kind: struct.Struct(f"<Q{code}{code}dddd6Q") for kind, code in enumerate("dqQ")}

BAD, BAD_END = _FIELDS["nan"][1], _FIELDS["zero"][1]
"""The bytes at which a record counts NaN, +Inf and -Inf, one after the other."""

ROW_DTYPE = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [kind for kind, _ in _FIELDS.values()],
        "offsets": [offset for _, offset in _FIELDS.values()],
        "itemsize": ROW_BYTES,
    }
)

_HEAD_FIELDS = {name: spot for name, spot in _FIELDS.items() if spot[1] < NUMBERS}
HEAD_DTYPE = np.dtype(
    {
        "names": list(_HEAD_FIELDS),
        "formats": [kind for kind, _ in _HEAD_FIELDS.values()],
        "offsets": [offset for _, offset in _HEAD_FIELDS.values()],
        "itemsize": NUMBERS,
    }
)
"""The part of a record that says which value it is of."""

_OPAQUE = np.dtype(f"V{ROW_BYTES}")
_WORD = np.dtype("<u8")

_EXACT = {FLOAT: ("min", "max"), INT: ("min_int", "max_int"), UINT: ("min_uint", "max_uint")}


def joined(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """All records in one array of the same layout, which `np.concatenate` would change."""
    if len(parts) == 1:
        return parts[0]
    whole = np.empty(sum(map(len, parts)), ROW_DTYPE)
    if parts:
        np.concatenate([part.view(_OPAQUE) for part in parts], out=whole.view(_OPAQUE))
    return whole


def taken(records: NDArray[np.void], which: NDArray[Any]) -> NDArray[np.void]:
    """Some records, by place or by mask; as opaque bytes, which is faster than by fields."""
    opaque = _OPAQUE if records.itemsize == ROW_BYTES else np.dtype(f"V{records.itemsize}")
    chosen: NDArray[np.void] = records.view(opaque)[which].view(records.dtype)
    return chosen


def words_of(records: NDArray[np.void]) -> NDArray[np.uint64]:
    """Some records as rows of 8-byte words: cheaper to look at than by fields."""
    return np.ascontiguousarray(records).view(_WORD).reshape(-1, ROW_BYTES // _WORD.itemsize)


def heads_of(records: NDArray[np.void]) -> NDArray[np.void]:
    """The heads of records, one after the other: each look at many is a fifth of the memory."""
    words = words_of(records)[:, : NUMBERS // _WORD.itemsize]
    heads: NDArray[np.void] = np.ascontiguousarray(words).view(HEAD_DTYPE).reshape(-1)
    return heads


def word(field: str) -> int:
    """Return which word of a record a field begins in."""
    return _FIELDS[field][1] // _WORD.itemsize


_BAD_WORDS = slice(word("nan"), word("zero"))


def has_bad(records: NDArray[np.void]) -> bool:
    """Tell whether any of some records counts a NaN or Inf."""
    return bool(np.count_nonzero(words_of(records)[:, _BAD_WORDS]))


def bad_among(records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which of some records count a NaN or Inf."""
    found: NDArray[np.bool_] = (records["nan"] | records["posinf"] | records["neginf"]) != 0
    return found


def row_from(record: np.void) -> Row:
    """The row in a record, with exact integers."""
    low, high = _EXACT[int(record["kind"])]
    values = {name: record[name].item() for name in Row._fields}
    values |= {"min": record[low].item(), "max": record[high].item()}
    return Row(**values)


def description() -> dict[str, object]:
    """The record as run.json describes it: NumPy type and byte offset of each field."""
    return {"bytes": ROW_BYTES, "fields": {name: list(spot) for name, spot in _FIELDS.items()}}


def write_numbers(buffer: bytearray | mmap.mmap, offset: int, row: Row) -> None:
    """Fill in the numbers of the record at `offset`, and what kind they are of."""
    kind = FLOAT
    if isinstance(row[1], int):
        kind = INT if row[2] < 1 << 63 else UINT
    _NUMBERS[kind].pack_into(buffer, offset + NUMBERS, *row)
    buffer[offset + KIND] = kind

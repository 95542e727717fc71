"""`values.safetensors`: the values of one iteration in one file, with an index at its head.

The format is that of safetensors. Values that were saved before in the same file are listed under
`repeats` in its metadata; complex numbers are pairs of floats, which the end of their name tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from opscope.atomic_files import TempFiles, write_all
from opscope.dump.format.npy import Array
from opscope.dump.layout import NPY
from opscope.safetensors_file import CODES, DTYPES, SIZE, Entry, encode_head, framed, read_head

VERSION = "1"
_MARK, _REPEATS = "opscope_dump", "repeats"
_BUFFER = 4 * 2**20
_AT_ONCE = 16 * 2**20
_LARGE = 128 * 1024
_ENTRY_BYTES = 80


class Pack:
    """A file being written: values in their order, then the header in the room left for it.

    What is small stays in memory until its header is known. A file that outgrows that is begun
    with room for a header of `reserve` bytes; if that is too little it is copied once.
    """

    def __init__(self, temp: TempFiles, reserve: int) -> None:
        self._temp = temp
        self._reserve = reserve
        self._descriptor = -1
        self._path = ""
        self._buffer = bytearray()
        self._entries: dict[str, Entry] = {}
        self._repeats: dict[str, str] = {}
        self._end = 0
        self.is_whole = True
        """False when a value could not be written: then the rest is of no use."""

    @property
    def values(self) -> int:
        """The number of values added, those that repeat others among them."""
        return len(self._entries) + len(self._repeats)

    @property
    def header_bytes(self) -> int:
        """About how long the header is."""
        names = sum(map(len, self._entries)) + 2 * sum(map(len, self._repeats))
        return names + _ENTRY_BYTES * (self.values + 1)

    def add(self, name: str, array: Array) -> None:
        """Append a value; its memory may change when this returns."""
        self.is_whole = False
        self._enter(name, array)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.nbytes < _LARGE:
            self._buffer += data.data
        else:
            self._write_buffer()
            self._write(data)
        if len(self._buffer) > _BUFFER:
            self._write_buffer()
        self.is_whole = True

    def repeat(self, name: str, saved: str) -> None:
        """Give a value that was added before another name."""
        self._repeats[name] = saved

    def _enter(self, name: str, array: Array) -> None:
        dtype, shape = str(array.dtype), array.shape
        if array.dtype.kind == "c":
            dtype, shape = f"float{array.itemsize * 4}", (*shape, 2)
        self._entries[name] = Entry(CODES[dtype], shape, self._end, self._end + array.nbytes)
        self._end += array.nbytes

    def _write(self, data: Any) -> None:
        write_all(self._descriptor, [data], len(data))

    def _write_buffer(self) -> None:
        if self._descriptor < 0:
            self._descriptor, self._path = self._temp.begin()
            os.lseek(self._descriptor, SIZE.size + self._reserve, os.SEEK_SET)
        if self._buffer:
            self._write(self._buffer)
            self._buffer = bytearray()

    def finish(self, path: str) -> int:
        """Put the file in its place; returns its size."""
        header = self._header()
        if self._descriptor < 0:
            content = [framed(header), self._buffer]
            size = sum(map(len, content))
            self._temp.place(path, content, size)
            return size
        self._write_buffer()
        if len(header) > self._reserve:
            self._move(header)
        else:
            os.pwrite(self._descriptor, framed(header, self._reserve), 0)
        size = os.fstat(self._descriptor).st_size
        self._close()
        self._temp.rename(self._path, path)
        return size

    def _move(self, header: bytes) -> None:
        """Copy the data to a file with room enough for the header."""
        old, old_path, start = self._descriptor, self._path, SIZE.size + self._reserve
        self._descriptor, self._path = self._temp.begin()
        self._write(framed(header))
        while data := os.pread(old, _AT_ONCE, start):
            self._write(data)
            start += len(data)
        os.close(old)
        Path(old_path).unlink()

    def discard(self) -> None:
        """Give up: nothing of it will be in its place."""
        if self._descriptor >= 0:
            self._close()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def _header(self) -> bytes:
        metadata = {_MARK: VERSION, _REPEATS: json.dumps(self._repeats)}
        return encode_head(self._entries, metadata)


class PackReader:
    """The values in a packed file, by the name that their `.npy` file would have."""

    def __init__(self, path: Path) -> None:
        self._file = path
        head = read_head(path, follow=True)
        self._start = head.start
        self._entries = head.entries
        self.is_dump = _MARK in head.metadata
        self.repeats = _repeats_in(head.metadata.get(_REPEATS, "{}"))
        for name, reason in head.damaged.items():
            raise ValueError(f"{name!r}: {reason}")
        for name, entry in self._entries.items():
            if _is_complex(name) and not (entry.code[0] == "F" and entry.shape[-1:] == (2,)):
                raise ValueError(f"{name!r} is not made of pairs of numbers")
        if not all(saved in self._entries for saved in self.repeats.values()):
            raise ValueError("a value repeats one that is not there")

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from self.repeats

    def __len__(self) -> int:
        return len(self._entries) + len(self.repeats)

    def __getitem__(self, name: str) -> Array:
        """The value, read from the file as it is asked for."""
        code, shape, start, end = self._entries[self.repeats.get(name, name)]
        dtype = np.dtype(DTYPES[code])
        if _is_complex(name):
            dtype, shape = np.dtype(f"complex{dtype.itemsize * 16}"), shape[:-1]
        count = (end - start) // dtype.itemsize
        array = np.fromfile(self._file, dtype, count, offset=self._start + start)
        return array.reshape(shape)


def _repeats_in(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except RecursionError:
        found = None
    if type(found) is not dict or not all(type(saved) is str for saved in found.values()):
        raise ValueError("its repeats are no object of names")
    return found


def _is_complex(name: str) -> bool:
    return name.removesuffix(NPY).rpartition(".")[2].startswith("complex")

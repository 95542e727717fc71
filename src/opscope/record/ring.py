"""The ring: one file of fixed size, mapped into memory, that survives the process.

A header, names, records of operators, facts of steps, the last batch and random states. All of it
is reserved on the disk before it is used, so that a full disk is an error at the start and nothing
later. Native code writes records and names (native/recorder); Python writes the rest.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.native import shared

RING_FILE = "ring.bin"
_HEADER = shared.RING_HEADER
_LENGTH = struct.Struct("<I")
_LATE = 16
"""Facts and statistics of so many steps are kept: those of a GPU come late."""


@dataclass(frozen=True)
class Sizes:
    """The size of each part of a ring; `slots` is a power of two."""

    slots: int = 1 << 16
    names_bytes: int = 4 << 20
    step_slots: int = 256
    step_bytes: int = 2048
    batch_bytes: int = 256 << 10
    random_bytes: int = 32 << 10

    @property
    def records_at(self) -> int:
        """The byte at which the records begin."""
        return shared.RING_HEADER_BYTES + self.names_bytes

    @property
    def steps_at(self) -> int:
        """The byte at which the facts of steps begin."""
        return self.records_at + self.slots * shared.RING_RECORD_BYTES

    @property
    def batch_at(self) -> int:
        """The byte at which the last batch begins."""
        return self.steps_at + self.step_slots * self.step_bytes

    @property
    def random_at(self) -> int:
        """The byte at which the random states begin."""
        return self.batch_at + self.batch_bytes

    @property
    def total(self) -> int:
        """The size of the whole."""
        return self.random_at + self.random_bytes


class Ring:
    """A ring that is written; in memory only where there is no path."""

    def __init__(self, memory: mmap.mmap, sizes: Sizes, path: Path | None) -> None:
        self.memory = memory
        self.sizes = sizes
        self.path = path
        self._steps_at = sizes.steps_at
        self._blobs = {
            "batch": (sizes.batch_at, sizes.batch_bytes),
            "random": (sizes.random_at, sizes.random_bytes),
        }
        self.native: Any = None
        """The native writer, if there is one: it writes the facts of steps where it can."""
        self._statistics: OrderedDict[int, str] = OrderedDict()
        self._written: OrderedDict[int, tuple[int, Mapping[str, str]]] = OrderedDict()
        self._numbers = memoryview(memory)[: shared.RING_HEADER_BYTES].cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for name in ("slots", "names_bytes", "step_slots", "step_bytes"):
            self[name] = getattr(sizes, name)
        self["batch_bytes"], self["random_bytes"] = sizes.batch_bytes, sizes.random_bytes
        self["record_bytes"] = shared.RING_RECORD_BYTES
        self["started_real"], self["started_mono"] = time.time_ns(), time.monotonic_ns()
        self["pid"] = os.getpid()
        self["magic"] = shared.RING_MAGIC

    @classmethod
    def in_file(cls, path: Path, sizes: Sizes) -> Ring:
        """A ring in a new file; OSError if there is no room for it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, sizes.total)
            memory = mmap.mmap(descriptor, sizes.total)
            memory[:] = bytes(sizes.total)  # or each page would cost training a fault of its own
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return cls(memory, sizes, path)

    @classmethod
    def in_memory(cls, sizes: Sizes) -> Ring:
        """A ring that ends with the process."""
        return cls(mmap.mmap(-1, sizes.total), sizes, None)

    def __setitem__(self, name: str, value: int) -> None:
        self._numbers[_HEADER[name] // 8] = value

    def __getitem__(self, name: str) -> int:
        return self._numbers[_HEADER[name] // 8]

    def add_statistics(self, step: int, text: str) -> None:
        """Statistics of a step have come, as JSON, before its other facts or after them."""
        self._statistics[step] = text
        if len(self._statistics) > _LATE:
            self._statistics.popitem(last=False)
        if step < self["step"]:
            self.write_statistics(step)

    def write_statistics(self, step: int) -> None:
        """Write what has come of a step; of one under way that is left until it ends."""
        if step in self._statistics and step in self._written:
            self.put_step(step, *self._written[step])

    def put_step(self, step: int, number: int, facts: Mapping[str, str]) -> None:
        """Write the facts of a step, each as JSON, over those of the oldest.

        Facts are encoded once where they are found, and a step's are written several times.
        """
        self.remember_step(step, number, facts)
        statistics = self._statistics.get(step)
        if self.native is not None and self.native.put_step(number, facts, statistics):
            return
        texts = [f'"{name}":{text}' for name, text in facts.items()]
        if statistics is not None:
            texts.append(f'"statistics":{statistics}')
        text = _fitting(texts, self.sizes.step_bytes - _LENGTH.size)
        at = self._steps_at + number % self.sizes.step_slots * self.sizes.step_bytes
        _LENGTH.pack_into(self.memory, at, 0)
        self.memory[at + _LENGTH.size : at + _LENGTH.size + len(text)] = text
        _LENGTH.pack_into(self.memory, at, len(text))
        if number >= self["steps_head"]:
            self["steps_head"] = number + 1

    def remember_step(self, step: int, number: int, facts: Mapping[str, str]) -> None:
        """The facts of a step are written, to which statistics may come."""
        self._written[step] = number, facts
        if len(self._written) > _LATE:
            self._written.popitem(last=False)

    def put_blob(self, name: str, about: bytes, parts: list[tuple[int, int]]) -> bool:
        """Write tensors, by address and size, with a description; False if there is no room."""
        at, room = self._blobs[name]
        begin = _LENGTH.size + len(about)
        if begin + sum(size for _, size in parts) > room:
            return False
        self[f"{name}_used"] = 0
        _LENGTH.pack_into(self.memory, at, len(about))
        self.memory[at + _LENGTH.size : at + begin] = about
        to = self.address + at + begin
        for address, size in parts:
            ctypes.memmove(to, address, size)
            to += size
        self[f"{name}_used"] = to - self.address - at
        return True


def _fitting(texts: list[str], room: int) -> bytes:
    """Facts as a JSON object, without the last ones if they are too long."""
    while len(text := f"{{{','.join(texts)}}}".encode()) > room:
        texts.pop()
    return text

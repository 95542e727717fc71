"""Files for kept values when memory is full: nobody sees them, and they end with us."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.arrays import Array


class _Place(NamedTuple):
    offset: int
    dtype: Any
    shape: tuple[int, ...]


class Spill:
    """Values on disk, a file for each step; a file goes as a whole, when its step is forgotten."""

    def __init__(self, directory: Path, budget: int) -> None:
        self._directory = directory
        self._budget = budget
        self._files: dict[int, Any] = {}
        self._places: dict[int, dict[Hashable, _Place]] = {}
        self._bytes: dict[int, int] = {}

    def put(self, step: int, key: Hashable, array: Array) -> bool:
        """Write a value; False if there is no room for it."""
        if sum(self._bytes.values()) + array.nbytes > self._budget:
            return False
        try:
            if step not in self._files:
                file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - `end_step` does
                self._files[step] = file
            offset = self._bytes.get(step, 0)
            _write(self._files[step].fileno(), offset, np.ascontiguousarray(array))
        except OSError:
            return False
        self._places.setdefault(step, {})[key] = _Place(offset, array.dtype, array.shape)
        self._bytes[step] = offset + array.nbytes
        return True

    def get(self, step: int, key: Hashable) -> Array | None:
        """A value that was written, or None."""
        place = self._places.get(step, {}).get(key)
        if place is None:
            return None
        size = place.dtype.itemsize * math.prod(place.shape)
        data = os.pread(self._files[step].fileno(), size, place.offset)
        return np.frombuffer(data, place.dtype).reshape(place.shape)

    def forget(self, step: int, key: Hashable) -> None:
        """Forget a value; its room is free when its whole step is forgotten."""
        self._places.get(step, {}).pop(key, None)

    def end_step(self, step: int) -> None:
        """Remove the file of a step of which no value is wanted any more."""
        self._places.pop(step, None)
        self._bytes.pop(step, None)
        file = self._files.pop(step, None)
        if file is not None:
            file.close()

    @property
    def is_empty(self) -> bool:
        """True if nothing is there."""
        return not self._files

    def present(self, step: int) -> list[Any]:
        """The keys of the values of a step."""
        return list(self._places.get(step, ()))

    def steps(self) -> list[int]:
        """The steps that have a file."""
        return sorted(self._files)


def _write(descriptor: int, offset: int, array: Array) -> None:
    data = array.reshape(-1).view(np.uint8).data
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written

"""Numbered texts that lie one after the other in memory, for native code to copy from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_UNSET = -1


class Texts:
    """Texts by number, as UTF-8; many numbers are looked up at once."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.spots: NDArray[np.int64] = np.full((1024, 2), _UNSET, np.int64)
        """The places at which the text of each number begins and ends."""

    def missing(self, numbers: NDArray[np.integer]) -> list[int]:
        """The numbers that have no text yet, each once."""
        if not len(numbers):
            return []
        self._reserve(int(numbers.max()))
        is_missing = self.spots[numbers, 0] == _UNSET
        if not is_missing.any():
            return []
        found: list[int] = np.unique(numbers[is_missing]).tolist()
        return found

    def add(self, number: int, text: str) -> None:
        """Give a number its text."""
        self._reserve(number)
        begin = len(self.bytes)
        self.bytes += text.encode("utf-8", "backslashreplace")
        self.spots[number] = begin, len(self.bytes)

    def length(self, numbers: NDArray[np.integer]) -> int:
        """Return how many bytes the texts of these numbers have together."""
        spots = self.spots[numbers]
        return int(spots[:, 1].sum() - spots[:, 0].sum())

    def __getitem__(self, number: int) -> bytes:
        begin, end = self.spots[number].tolist()
        return bytes(self.bytes[begin:end])

    def _reserve(self, number: int) -> None:
        if number >= len(self.spots):
            more: NDArray[np.int64] = np.full((number + 1, 2), _UNSET, np.int64)
            self.spots = np.concatenate((self.spots, more))

"""How parameters fare over the steps, from the rows of their first use in each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
Numbers = NDArray[np.int32]
_FIELDS = ("min", "max", "mean", "mean_abs", "l2")


class History:
    """By parameter number: how often it was seen, and whether it ever changed."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, np.int64)
        """In how many steps it could have changed since it was first seen."""
        self.changed_ever = np.zeros(0, bool)
        self.changed = np.zeros(0, bool)
        """Whether it is other than in the step before."""
        self._last = np.zeros((0, len(_FIELDS)), np.int64)
        self._known = np.zeros(0, bool)

    def observe(self, numbers: Numbers, records: Records) -> None:
        """The rows of these parameters in a new step, one each."""
        if not len(numbers):
            return
        self._grow(int(numbers.max()) + 1)
        bits = signature(records)
        known = self._known[numbers]
        differs = (bits != self._last[numbers]).any(axis=1) & known
        self.changed[:] = False
        self.changed[numbers] = differs
        self.changed_ever[numbers] |= differs
        self.seen[numbers] += known
        self._last[numbers] = bits
        self._known[numbers] = True

    def _grow(self, size: int) -> None:
        more = size - len(self.seen)
        if more <= 0:
            return
        self.seen = np.append(self.seen, np.zeros(more, np.int64))
        self.changed_ever = np.append(self.changed_ever, np.zeros(more, bool))
        self.changed = np.append(self.changed, np.zeros(more, bool))
        self._known = np.append(self._known, np.zeros(more, bool))
        fresh = np.zeros((more, len(_FIELDS)), np.int64)
        self._last = np.concatenate([self._last, fresh])


def signature(records: Records) -> NDArray[np.int64]:
    """Numbers that are other ones if the values are, bit by bit."""
    columns = [np.ascontiguousarray(records[name]).view(np.int64) for name in _FIELDS]
    return np.stack(columns, axis=1)


def digests(names: Sequence[str], records: Records) -> dict[str, str]:
    """Return by parameter a short text that is another one if its numbers are."""
    rows = signature(records)
    return {name: _digest(rows[index]) for index, name in enumerate(names)}


def _digest(signatures: NDArray[np.int64]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(signatures).tobytes(), digest_size=8).hexdigest()

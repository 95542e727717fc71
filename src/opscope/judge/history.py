"""The course of parameters over the steps, from the rows of their first use in each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import ne

import numpy as np
from numpy.typing import NDArray

from opscope.stats.record import word, words_of

Records = NDArray[np.void]
ParameterNumbers = NDArray[np.int32]
_WORDS = slice(word("min"), word("l2") + 1)
"""Of a record: min, max, mean, mean of |x| and l2 norm."""
_COUNT = _WORDS.stop - _WORDS.start


class ParameterHistory:
    """By parameter number: how often it was seen, and whether it ever changed."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, np.int64)
        """In how many steps it could have changed since it was first seen."""
        self.changed_ever = np.zeros(0, bool)
        self.still = np.zeros(0, np.int64)
        """For how many steps in a row it has not changed."""
        self.changed = np.zeros(0, bool)
        """True for each parameter that is other than in the step before."""
        self.all_changed = False
        """True if every parameter is other than in the step before."""
        self._last = np.zeros((0, _COUNT), np.int64)
        self._latest: Records | None = None
        """The rows that `_last` is to be made of."""
        self._norms: list[int] = []
        """Those of the last step, as far as every parameter had changed in it."""
        self._known = np.zeros(0, bool)
        self._numbers: ParameterNumbers | None = None
        self._where: ParameterNumbers | slice = slice(0)

    def observe(self, numbers: ParameterNumbers, records: Records) -> None:
        """Take in the rows of these parameters in a new step, one each."""
        if not len(numbers):
            return
        where, norms = self._places_of(numbers), self._norms
        self._norms = []
        if self.all_changed and isinstance(where, slice):
            # The norms alone say that all have changed again, as in most steps of most trainings.
            self._norms = _norms(records)
            if norms and all(map(ne, norms, self._norms)):
                self.seen += 1
                self._latest = records
                return
        self._settle()
        bits = signature(records)
        if isinstance(where, slice) and self._known.all():
            self.changed = (bits != self._last).any(axis=1)
            self.seen += 1
            self._last = bits
            if self.changed.all():
                if not self.all_changed:
                    self.changed_ever[:], self.still[:], self.all_changed = True, 0, True
                return
            self.all_changed, self._norms = False, []
            self.changed_ever |= self.changed
            self.still = np.where(self.changed, 0, self.still + 1)
            return
        self.all_changed = False
        known = self._known[where]
        differs = (bits != self._last[where]).any(axis=1) & known
        self.changed[:] = False
        self.changed[where] = differs
        self.changed_ever[where] |= differs
        self.seen[where] += known
        self.still[where] = np.where(differs, 0, self.still[where] + known)
        self._last = self._last.copy()  # it may be the rows of an earlier step, which others have
        self._last[where] = bits
        self._known[where] = True

    def _settle(self) -> None:
        if self._latest is not None:
            self._last, self._latest = signature(self._latest), None

    def _places_of(self, numbers: ParameterNumbers) -> ParameterNumbers | slice:
        """Return the places of these parameters in the arrays; a slice, which is cheaper, for all.

        Most steps use the parameters of the step before, and say so by the same array.
        """
        if numbers is not self._numbers:
            self._grow(int(numbers.max()) + 1)
            everything = np.array_equal(numbers, np.arange(len(self.seen)))
            self._numbers, self._where = numbers, slice(None) if everything else numbers
        return self._where

    def _grow(self, size: int) -> None:
        more = size - len(self.seen)
        if more <= 0:
            return
        self._settle()
        self.all_changed = False
        self.seen = np.append(self.seen, np.zeros(more, np.int64))
        self.changed_ever = np.append(self.changed_ever, np.zeros(more, bool))
        self.still = np.append(self.still, np.zeros(more, np.int64))
        self.changed = np.append(self.changed, np.zeros(more, bool))
        self._known = np.append(self._known, np.zeros(more, bool))
        fresh = np.zeros((more, _COUNT), np.int64)
        self._last = np.concatenate([self._last, fresh])


def _norms(records: Records) -> list[int]:
    """The l2 norms, bit by bit: in a list, which is quicker of some hundreds than an array."""
    found: list[int] = records["l2"].view(np.int64).tolist()
    return found


def signature(records: Records) -> NDArray[np.int64]:
    """Numbers that are other ones if the values are, bit by bit."""
    return words_of(records)[:, _WORDS].view(np.int64)


def digests(names: Sequence[str], records: Records) -> dict[str, str]:
    """Return by parameter a short text that is another one if its numbers are."""
    rows = signature(records)
    return {name: _digest(rows[index]) for index, name in enumerate(names)}


def _digest(signatures: NDArray[np.int64]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(signatures).tobytes(), digest_size=8).hexdigest()

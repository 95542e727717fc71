"""Many rows on their way to a table, as the records that they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.dump.format.subject import Label
from opscope.dump.layout import DumpFolder
from opscope.stats.record import ROW_BYTES
from opscope.value_type import ValueType

Records = NDArray[np.void]
Integers = NDArray[np.int64]


OPAQUE = np.dtype(f"V{ROW_BYTES}")
"""A record as one piece: NumPy copies it field by field otherwise."""


class TableRows(NamedTuple):
    """Rows of one place, in their order, and what the numbers in their records stand for.

    The `node` of a record is the number of its label and its `call` the task id.
    """

    place: DumpFolder
    records: Records
    moments: Integers
    """The stream and the time in µs of each row."""
    labels: Mapping[int, Label]
    kinds: Mapping[int, ValueType] | Sequence[ValueType]
    """Data types with shapes, by the number that a record has for its shape."""

    def parts(self, rows: int) -> Iterator[TableRows]:
        """The same in batches of so many rows at most."""
        for first in range(0, len(self.records), rows):
            part = slice(first, first + rows)
            yield self._replace(records=self.records[part], moments=self.moments[part])


class NumberSet:
    """A set of small numbers, which takes many at once."""

    def __init__(self) -> None:
        self._has = bytearray(1024)

    def add(self, number: int) -> bool:
        """Take in a number; returns whether it is new."""
        self._reserve(number)
        is_new = not self._has[number]
        self._has[number] = 1
        return is_new

    def add_all(self, numbers: NDArray[np.integer]) -> list[int]:
        """Take in numbers; returns those that are new, each once."""
        if not len(numbers):
            return []
        self._reserve(int(numbers.max()))
        has = np.frombuffer(self._has, np.uint8)
        is_known = has[numbers]
        if is_known.all():
            return []
        new: list[int] = np.unique(numbers[is_known == 0]).tolist()
        has[new] = 1
        return new

    def _reserve(self, number: int) -> None:
        if number >= len(self._has):
            self._has = self._has + bytes(number + 1)


class Column:
    """A number for each of many numbered things; `default` for those that were given none."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._values: Integers = np.full(1024, default, np.int64)

    def __setitem__(self, index: int, value: int) -> None:
        self._reserve(index)
        self._values[index] = value

    def of(self, indices: NDArray[np.integer]) -> Integers:
        """The numbers of these things."""
        if len(indices):
            self._reserve(int(indices.max()))
        numbers: Integers = self._values[indices]
        return numbers

    def _reserve(self, index: int) -> None:
        if index >= len(self._values):
            more: Integers = np.full(index + 1, self._default, np.int64)
            self._values = np.concatenate((self._values, more))

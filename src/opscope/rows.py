"""Rows on their way to the sinks: records of one step, and what their numbers stand for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from opscope.events import IO, Call, Node, ValueStats
from opscope.stats.glance import Glance, Look, glance
from opscope.stats.memory import RowMemory
from opscope.stats.record import INPUT, row_from
from opscope.value_type import ValueType


class ValueTypes:
    """Numbers for types of values."""

    def __init__(self) -> None:
        self.number_of: dict[ValueType, int] = {}
        self.by_number: list[ValueType] = []

    def add(self, kind: ValueType) -> int:
        """A new number."""
        number = len(self.by_number)
        self.number_of[kind] = number
        self.by_number.append(kind)
        return number


class Rows(Sequence[ValueStats]):
    """Rows of one step that became ready: `records` of `ROW_DTYPE`; as objects when iterated.

    Other sinks may have asked for some of them. `memory` is where the records are; `moments` has,
    for every call with rows, its index, its stream and its time in µs, one after the other.
    """

    def __init__(
        self,
        records: NDArray[np.void],
        memory: RowMemory | None,
        nodes: Sequence[Node],
        kinds: Sequence[ValueType],
        moments: array[int],
        wiring: int | None = None,
        found: Glance | None = None,
        look: Look = glance,
    ) -> None:
        self.records = records
        self.memory = memory
        self.nodes = nodes
        self.kinds = kinds
        self.flat_moments = moments
        self.wiring = wiring
        """The same number as long as the sources of nodes that were seen stay as they are."""
        self.look = look
        """Looks at records, natively where it can be."""
        self._glance = found
        self._calls: dict[int, Call] = {}
        self._times: dict[int, tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def glance(self) -> Glance:
        """All of them at a glance; several sinks ask."""
        if self._glance is None:
            self._glance = self.look(self.records)
        return self._glance

    @property
    def has_bad(self) -> bool:
        """True if any of them counts a NaN or Inf."""
        return self.glance.bad

    @overload
    def __getitem__(self, index: int) -> ValueStats: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> ValueStats | Rows:
        if isinstance(index, slice):
            about = self.memory, self.nodes, self.kinds, self.flat_moments, self.wiring
            return Rows(self.records[index], *about)
        return self._value(self.records[index])

    def __iter__(self) -> Iterator[ValueStats]:
        return map(self._value, self.records)

    @property
    def moments(self) -> dict[int, tuple[int, int]]:
        """Call index → stream and time in µs."""
        if self._times is None:
            flat = self.flat_moments
            self._times = {flat[i]: (flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)}
        return self._times

    def _value(self, record: np.void) -> ValueStats:
        dtype, shape = self.kinds[int(record["shape"])]
        io = IO.INPUT if record["io"] == INPUT else IO.OUTPUT
        return ValueStats(
            self._call(record), io, int(record["slot"]), dtype, shape, row_from(record)
        )

    def _call(self, record: np.void) -> Call:
        index = int(record["call"])
        call = self._calls.get(index)
        if call is None:
            node = self.nodes[int(record["node"])]
            stream, time_us = self.moments.get(index, (0, 0))
            call = self._calls[index] = Call(node, int(record["step"]), index, stream, time_us)
        return call

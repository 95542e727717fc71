"""One recorded value: where and when it was, its numbers, its elements where they were saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from opscope.errors import OpscopeError
from opscope.events import IO, Node
from opscope.read.extra_stats import RecordPlace, place_of
from opscope.read.measure import measure
from opscope.read.stored import Array, Stored, open_array
from opscope.stats.record import INPUT, ROW_DTYPE, VALID, row_from
from opscope.stats.row import Row
from opscope.value_type import ValueType


@dataclass(frozen=True)
class Value:
    """A tensor of a step: an input or an output of a node."""

    rank: int
    step: int
    node: Node
    io: IO
    slot: int
    call: int
    """The place of its operator's call in the step."""
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    """None where only the file knows."""
    pass_number: int | None = None
    """The pass of the step it is of, if there are several."""
    extra: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """The extra statistics of it that were asked for, by name."""
    _record: Any = field(default=None, repr=False, compare=False)
    _stored: Stored | None = field(default=None, repr=False, compare=False)
    _known: frozenset[str] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name that commands take: `NODE:slot` or `NODE:input:slot`, and `@PASS` of several."""
        side = "input:" if self.io is IO.INPUT else ""
        of_pass = "" if self.pass_number is None else f"@{self.pass_number}"
        return f"{self.node.name}:{side}{self.slot}{of_pass}"

    @property
    def is_saved(self) -> bool:
        """True if its elements were saved."""
        return self._stored is not None

    def array(self) -> Array:
        """Its elements, read-only; OpscopeError if they were not saved.

        bfloat16 and float8 come as float32.
        """
        if self._stored is None:
            raise OpscopeError(f"the elements of {self.name} in step {self.step} were not saved")
        return open_array(self._stored)

    def stats(self) -> Row:
        """Its row: as recorded, or computed from its elements; what is not known is NaN."""
        if self._stored is not None:
            record = np.zeros(1, ROW_DTYPE)
            measure(self.array(), record.ctypes.data)
            return row_from(record[0])
        if self._record is None or self._record["valid"] != VALID:
            raise OpscopeError(f"there are no numbers of {self.name} in step {self.step}")
        row = row_from(self._record)
        if self._known is None:
            return row
        unknown: Mapping[str, Any] = {n: np.nan for n in Row._fields if n not in self._known}
        return row._replace(**unknown)


class _Typed(Protocol):
    """A rank: whose values they are, and what their numbers stand for."""

    @property
    def number(self) -> int: ...
    @property
    def nodes(self) -> Mapping[int, Node]: ...
    @property
    def types(self) -> Mapping[int, ValueType | None]: ...
    def pass_of(self, step: int, call: int) -> int | None: ...


def value_of(
    rank: _Typed,
    record: Any,
    stored: Stored | None = None,
    dtype: str | None = None,
    known: frozenset[str] | None = None,
    extra: Mapping[RecordPlace, Mapping[str, float]] | None = None,
) -> Value:
    """The value that a record is about."""
    kind = rank.types.get(int(record["shape"]))
    return Value(
        rank.number,
        int(record["step"]),
        rank.nodes[int(record["node"])],
        IO.INPUT if record["io"] == INPUT else IO.OUTPUT,
        int(record["slot"]),
        int(record["call"]),
        kind.dtype if kind else dtype,
        kind.shape if kind else None,
        rank.pass_of(int(record["step"]), int(record["call"])),
        extra.get(place_of(record), {}) if extra else {},
        record,
        stored,
        known,
    )

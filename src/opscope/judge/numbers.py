"""The numbers that conditions look at: rows of values as columns, one entry per value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opscope.stats.record import FLOAT, UINT
from opscope.stats.row import Row
from opscope.stats.two_tensors import Difference

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Change:
    """The distance of each value from the step before; a mean is NaN where nothing compares."""

    mean: Floats
    """The mean of |now - before| over the pairs of finite elements."""
    mean_abs_before: Floats
    outside: Floats
    """The number of pairs that are further apart than atol + rtol * |before|."""
    infinite: Flags
    """True if some pair has an infinity on one side only, or of another sign."""

    @classmethod
    def of(cls, differences: Sequence[Difference]) -> Change:
        """The columns of some differences, `now` against `before`."""
        mean = [d.mean for d in differences]
        before = [d.mean_abs_b for d in differences]
        outside = [d.outside for d in differences]
        infinite = [np.isposinf(d.max) for d in differences]
        return cls(_floats(mean), _floats(before), _floats(outside), np.array(infinite, bool))


@dataclass(frozen=True)
class NumberColumns:
    """Columns of n values. `in_range` and `change` are there if a condition needs them."""

    count: Floats
    min: Floats
    max: Floats
    mean: Floats
    mean_abs: Floats
    l2: Floats
    nan: Floats
    posinf: Floats
    neginf: Floats
    zero: Floats
    in_range: Floats | None = None
    """The number of elements in the range that a watchpoint gives, both ends included."""
    change: Change | None = None
    missing: NDArray[np.uint8] | None = None
    """The reason why `in_range` or `change` is not known: a number of `REASONS`, 0 where it is."""

    @classmethod
    def of_records(cls, records: NDArray[np.void], **more: object) -> NumberColumns:
        """The columns of records as they are in a run."""
        fields = ("count", "mean", "mean_abs", "l2", "nan", "posinf", "neginf", "zero")
        columns = {name: records[name].astype(np.float64) for name in fields}
        return cls(min=_end(records, "min"), max=_end(records, "max"), **columns, **more)  # type: ignore[arg-type]

    @classmethod
    def of_rows(cls, rows: Sequence[Row], **more: object) -> NumberColumns:
        """The columns of rows."""
        names = ("count", "min", "max", "mean", "mean_abs", "l2", "nan", "posinf", "neginf", "zero")
        columns = {name: _floats([getattr(row, name) for row in rows]) for name in names}
        return cls(**columns, **more)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.count)

    @property
    def infinite(self) -> Floats:
        """The number of infinite elements."""
        return self.posinf + self.neginf

    @property
    def bad(self) -> Floats:
        """The number of elements that are NaN or infinite."""
        return self.nan + self.posinf + self.neginf

    @property
    def finite(self) -> Floats:
        """The number of elements that are neither NaN nor infinite."""
        return self.count - self.bad


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, np.float64)


def _end(records: NDArray[np.void], name: str) -> Floats:
    """`min` or `max` as floats, whatever kind of number each is."""
    kinds = records["kind"]
    found = records[name].astype(np.float64)
    if (kinds == FLOAT).all():
        return found
    signed, unsigned = records[f"{name}_int"], records[f"{name}_uint"]
    whole = np.where(kinds == UINT, unsigned.astype(np.float64), signed.astype(np.float64))
    whole = np.where(records["count"] == 0, np.nan, whole)
    return np.where(kinds == FLOAT, found, whole)

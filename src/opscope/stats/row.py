"""The row: what opscope knows about one value without keeping it."""

from __future__ import annotations

from typing import NamedTuple

NAN = float("nan")


class Row(NamedTuple):
    """The statistics of one value; docs/statistics.md defines each number.

    A number that has no elements to be computed from is NaN. `min` and `max` are ints for integer
    and bool values, floats otherwise.
    """

    count: int  # type: ignore[assignment]  # more useful here than tuple.count
    min: float
    max: float
    mean: float
    mean_abs: float
    l2: float
    std: float
    nan: int
    posinf: int
    neginf: int
    zero: int
    negative: int
    positive: int

    @property
    def finite(self) -> int:
        """The number of elements that mean, mean_abs, l2 and std are over."""
        return self.count - self.nan - self.posinf - self.neginf


EMPTY = Row(0, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0, 0, 0, 0, 0)

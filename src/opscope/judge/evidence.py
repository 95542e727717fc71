"""Facts about values beside their rows: elements in a range, values of the step before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opscope.judge.numbers import Change, Flags, Floats
from opscope.judge.outcome import Codes
from opscope.judge.watchpoint import Watchpoint

Records = NDArray[np.void]
Indices = NDArray[np.intp]


class FurtherColumns(NamedTuple):
    """Further columns of some rows; see `opscope.judge.numbers.NumberColumns`."""

    in_range: Floats | None = None
    change: Change | None = None
    missing: Codes | None = None
    before: Sequence[int] | None = None
    """The step that each value was compared with, -1 for none."""

    def given(self) -> dict[str, Any]:
        """Return the columns that `Numbers` takes."""
        return {"in_range": self.in_range, "change": self.change, "missing": self.missing}


class Lacking(NamedTuple):
    """Numbers that some rows do not have."""

    names: Sequence[str]
    where: Flags


class Evidence(Protocol):
    """Whoever has more than rows: a training that runs, or a recording with tensors."""

    def columns(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str], rows: Indices
    ) -> FurtherColumns:
        """Return the further columns that a watchpoint needs of some rows.

        `names` are the parameters they are of, if any; `rows` is where they stand in the step.
        """

    def lacking(self, watchpoint: Watchpoint, rows: Indices) -> Lacking | None:
        """Return which numbers that a watchpoint needs are missing, and in which rows."""


def ends_of(watchpoint: Watchpoint) -> tuple[float, float]:
    """Return the range of a watchpoint; an end that is not given is infinite."""
    return (
        watchpoint.params.get("range_start_inclusive", -math.inf),
        watchpoint.params.get("range_end_inclusive", math.inf),
    )


def counts_range(watchpoint: Watchpoint) -> bool:
    """Return whether a watchpoint asks how many elements are in a range."""
    return any(name.startswith("range_percentage") for name in watchpoint.params)


def tolerance_of(params: Mapping[str, float]) -> tuple[float, float, bool]:
    """Return rtol, atol and whether NaN is equal to NaN."""
    return params.get("rtol", 0.0), params.get("atol", 0.0), bool(params.get("equal_nan", 0.0))

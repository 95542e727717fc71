"""Numbers of arrays, as a run or the live check would have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.judge.catalogue import BY_NAME
from opscope.judge.numbers import Change, NumberColumns
from opscope.judge.outcome import REASONS, Outcome
from opscope.stats.numpy_stats import row_of
from opscope.stats.two_tensors import difference_of_arrays

Array = NDArray[Any]
NAN, INF = float("nan"), float("inf")


def numbers(*values: Any, **more: Any) -> NumberColumns:
    """The columns of some arrays or lists."""
    return NumberColumns.of_rows([row_of(np.asarray(value)) for value in values], **more)


def in_range(values: list[Any], low: float, high: float) -> NumberColumns:
    """The columns of arrays, with how many elements are in a range."""
    arrays = [np.asarray(value, np.float64) for value in values]
    inside = [np.count_nonzero((array >= low) & (array <= high)) for array in arrays]
    return numbers(*values, in_range=np.array(inside, np.float64))


def changed(
    now: Any, before: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> NumberColumns:
    """The columns of one array, compared with what it was."""
    found = difference_of_arrays(np.asarray(now), np.asarray(before), rtol, atol, equal_nan)
    return numbers(now, change=Change.of([found]))


def check(condition: str, n: NumberColumns, **params: float) -> Outcome:
    """What a condition says, with its defaults where nothing else is given."""
    found = BY_NAME[condition]
    assert found.check is not None
    return found.check(n, found.defaults | params)


def hits(condition: str, value: Any, **params: float) -> bool:
    """Whether a condition holds for one array; it must have been checked."""
    outcome = check(condition, numbers(value), **params)
    assert outcome.reasons.tolist() == [0], REASONS[outcome.reasons[0]]
    return bool(outcome.hits[0])


def reason(outcome: Outcome) -> str:
    """Why the only value was not checked; never together with a hit."""
    code = int(outcome.reasons[0])
    assert not (code and outcome.hits[0])
    return REASONS[code]

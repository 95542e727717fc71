"""Rows as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_numbers import INF, NAN, numbers

from opscope.judge.numbers import Change, NumberColumns
from opscope.judge.outcome import any_of, certain
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, write_numbers

ARRAYS: list[Any] = [
    np.array([1.5, -2.0, NAN, INF]),
    np.array([2**62 + 1, -(2**63)]),
    np.array([2**64 - 1, 3], np.uint64),
    np.array([True, False]),
    np.array([], np.float32),
    np.array([], np.int64),
    np.array([NAN, NAN], np.float16),
]


def records_of(arrays: list[Any]) -> Any:
    """The same rows as they are in a run."""
    buffer = bytearray(ROW_BYTES * len(arrays))
    for place, array in enumerate(arrays):
        write_numbers(buffer, place * ROW_BYTES, row_of(array))
    return np.frombuffer(buffer, ROW_DTYPE)


def test_records_and_rows_give_the_same_columns() -> None:
    one, other = NumberColumns.of_records(records_of(ARRAYS)), numbers(*ARRAYS)
    for name in (
        "count",
        "min",
        "max",
        "mean",
        "mean_abs",
        "l2",
        "nan",
        "posinf",
        "neginf",
        "zero",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert len(one) == len(ARRAYS)
    assert one.bad.tolist() == [2, 0, 0, 0, 0, 0, 2]
    assert one.finite.tolist() == [2, 2, 2, 2, 0, 0, 0]


def test_an_empty_integer_record_has_no_ends() -> None:
    records = records_of([np.array([5])]).copy()
    records["count"] = 0
    assert np.isnan(NumberColumns.of_records(records).max[0])


def test_more_columns_come_along() -> None:
    change = Change(*(np.zeros(1) for _ in range(3)), np.zeros(1, bool))
    n = NumberColumns.of_records(records_of(ARRAYS[:1]), change=change, in_range=np.ones(1))
    assert n.change is change
    assert n.in_range is not None and n.in_range.tolist() == [1]


def test_outcomes() -> None:
    n = numbers([1.0], [NAN], [5.0])
    assert any_of(n, {}, {}).hits.tolist() == [False] * 3
    assert certain(np.array([True, True]), np.array([0, 4], np.uint8)).hits.tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("size", [0, 1])
def test_no_values_at_all(size: int) -> None:
    n = NumberColumns.of_records(np.zeros(size, ROW_DTYPE))
    assert len(n) == size

"""The summary of a step's statistics, against NumPy."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.made_rows import record_of
from opscope.record.step_statistics import StepStatistics
from opscope.rows import Rows
from opscope.stats.memory import records_in
from opscope.stats.numpy_stats import row_of

ELEMENTS = st.floats(width=32) | st.sampled_from([float("nan"), float("inf"), float("-inf")])
VALUES = st.lists(st.lists(ELEMENTS, max_size=5), max_size=6)


def rows_of(values: list[NDArray[np.float32]], first_node: int) -> Rows:
    buffer = b"".join(
        bytes(record_of(row_of(value), 1, 0, 0, 0, first_node + at, at, 0))
        for at, value in enumerate(values)
    )
    nodes = [SimpleNamespace(name=f"node {number}") for number in range(first_node + len(values))]
    records = records_in(bytearray(buffer), 0, len(buffer))
    return Rows(records, None, nodes, [], None)  # type: ignore[arg-type]


@given(st.lists(VALUES, max_size=3))
def test_the_values_of_a_step_are_summed_up(parts: list[list[list[float]]]) -> None:
    summary, everything = StepStatistics(), []
    for part in parts:
        values = [np.array(each, np.float32) for each in part]
        summary.add(rows_of(values, len(everything)))
        everything += values
    bad = [at for at, value in enumerate(everything) if not np.isfinite(value).all()]
    ends = [v[~np.isnan(v)] for v in everything if not np.isinf(v).any()]
    largest = max((float(np.abs(v).max()) for v in ends if v.size), default=0.0)
    expected: dict[str, object] = {"values": len(everything), "largest": largest}
    if bad:
        expected |= {"not_finite": len(bad), "first": f"node {bad[0]}"}
    assert json.loads(summary.to_json()) == expected

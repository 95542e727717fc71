"""Rows are ordered by place, however often a step recurs in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opscope.rundir.row_index import order_of
from opscope.stats.record import ROW_DTYPE, VALID

places = st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 2))


@given(
    step=st.lists(places, max_size=6),
    begin=st.integers(0, 5),
    length=st.integers(0, 40),
    other=st.one_of(st.none(), st.tuples(st.integers(0, 39), places)),
)
def test_the_order_is_that_of_sorting(
    step: list[tuple[int, int, int]],
    begin: int,
    length: int,
    other: tuple[int, tuple[int, int, int]] | None,
) -> None:
    """A file may begin within a step, end within one, and have a step that is not like the rest."""
    sequence = (step * 50)[begin : begin + length]
    if other is not None and other[0] < len(sequence):
        sequence[other[0]] = other[1]
    records = np.zeros(len(sequence), ROW_DTYPE)
    records["valid"] = VALID
    for record, (node, side, slot) in zip(records, sequence, strict=True):
        record["node"], record["io"], record["slot"] = node, side, slot
    expected = sorted(range(len(sequence)), key=lambda at: (sequence[at], at))
    assert order_of(records).tolist() == expected

"""What several readers ask of all rows of a step at once, natively and by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from opscope.capture import hook
from opscope.stats.glance import Glance, glance
from opscope.stats.record import FLOAT, INT, ROW_DTYPE, UINT

floats = st.floats(width=64)
counts = st.sampled_from([0, 0, 0, 1, 7])


@st.composite
def rows(draw: st.DrawFn) -> NDArray[np.void]:
    found = np.zeros(draw(st.integers(0, 12)), ROW_DTYPE)
    for record in found:
        record["valid"] = draw(st.sampled_from([1, 1, 1, 0]))
        record["io"], record["slot"] = draw(st.integers(0, 1)), draw(st.integers(0, 3))
        record["kind"] = draw(st.sampled_from([FLOAT, FLOAT, INT, UINT]))
        record["step"], record["call"] = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        record["node"], record["shape"] = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        record["min"], record["max"] = draw(floats), draw(floats)
        record["nan"], record["posinf"] = draw(counts), draw(counts)
        record["neginf"] = draw(counts)
    return found


def natively(records: NDArray[np.void]) -> Glance:
    native = hook.load()
    if native is None:
        pytest.skip("there is no native code")
    return Glance._make(native.glance(records))


@given(rows())
def test_both_ways_see_the_same(records: NDArray[np.void]) -> None:
    one, other = glance(records), natively(records)
    assert (one.valid, one.bad, one.largest) == (other.valid, other.bad, other.largest)


@given(rows())
def test_it_is_what_the_rows_say_one_by_one(records: NDArray[np.void]) -> None:
    found = glance(records)
    assert found.valid == sum(int(record["valid"]) for record in records)
    bad = [record["nan"] or record["posinf"] or record["neginf"] for record in records]
    assert found.bad == any(bad)
    ends = [
        abs(end)
        for record in records
        if record["kind"] == FLOAT and not record["posinf"] and not record["neginf"]
        for end in (max(record["max"], 0.0), min(record["min"], 0.0))
        if not np.isnan(end)
    ]
    assert found.largest == max(ends, default=0.0)


@pytest.mark.parametrize("look", [glance, natively])
def test_places_tell_other_values_and_other_orders_apart(look) -> None:  # type: ignore[no-untyped-def]
    records = np.zeros(6, ROW_DTYPE)
    records["node"], records["call"] = range(6), range(6)
    first = look(records).places
    assert look(records.copy()).places == first
    for field in ("io", "slot", "node", "call"):
        other = records.copy()
        other[field][4] += 1
        assert look(other).places != first, field
    assert look(records[::-1].copy()).places != first
    assert look(records[:5].copy()).places != first
    for field in ("step", "shape", "min", "nan", "kind", "valid"):  # which change from step to step
        other = records.copy()
        other[field][4] += 1
        assert look(other).places == first, field

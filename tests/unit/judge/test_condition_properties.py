"""Every condition against plain float64 NumPy on the raw arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_numbers import INF, NAN, changed, check, in_range, numbers
from numpy.typing import NDArray

from helpers.examples import examples
from opscope.judge.numbers import NumberColumns
from opscope.stats.native_cpu import row_of_array
from opscope.stats.numpy_stats import row_of

Array = NDArray[Any]

# Multiples of a quarter add up without rounding, in whatever order.
QUARTERS = st.integers(-32, 32).map(lambda n: n / 4)
ELEMENTS = st.one_of(QUARTERS, st.sampled_from([0.0, -0.0, 0.0, NAN, INF, -INF]))
DTYPES = st.sampled_from(["float64", "float32", "float16", "int8", "int64", "bool"])


@st.composite
def arrays(draw: Any) -> Array:
    """Arrays of up to 12 elements of any kind."""
    dtype = draw(DTYPES)
    elements = ELEMENTS if dtype.startswith("float") else st.integers(-8, 8)
    return np.array(draw(st.lists(elements, max_size=12)), dtype)


def _values(array: Array) -> Array:
    wide = array.astype(np.float64)
    return wide[~np.isnan(wide)]


def _plain(name: str, array: Array) -> float | None:
    """The number that a parameter is compared with; None where there is none."""
    values, everything = _values(array), array.astype(np.float64)
    if name.startswith("zero_percentage"):
        return 100.0 * np.count_nonzero(everything == 0) / array.size if array.size else None
    if not values.size:
        return None
    with np.errstate(invalid="ignore"):
        found = {
            "max": values.max(),
            "min": values.min(),
            "mean": values.mean(),
            "abs_mean": np.abs(values).mean(),
            "max_min": values.max() - values.min(),
        }[name.rpartition("_")[0]]
    return None if math.isnan(found) else float(found)


_OPERATORS = {"gt": np.greater, "lt": np.less, "ge": np.greater_equal}
CASES = [
    *[("TL", f"{name}_gt") for name in ("max", "min", "mean", "abs_mean")],
    *[("TS", f"{name}_lt") for name in ("max", "min", "mean", "abs_mean")],
    *[("TR", "max_min_gt"), ("TR", "max_min_lt"), ("TZ", "zero_percentage_ge")],
    *[("WI", "zero_percentage_ge"), ("WI", "max_gt"), ("WI", "min_lt")],
]


@pytest.mark.parametrize(("condition", "name"), CASES)
@settings(max_examples=examples(150), deadline=None)
@given(array=arrays(), threshold=QUARTERS, native=st.booleans())
def test_thresholds(
    condition: str, name: str, array: Array, threshold: float, native: bool
) -> None:
    if condition == "WI":
        params = {"zero_percentage_ge": 101.0, name: threshold}  # its default cannot be reached
    else:
        params = {name: threshold}
    n = NumberColumns.of_rows([row_of_array(array) if native else row_of(array)])
    outcome = check(condition, n, **params)
    expected = _plain(name, array)
    if expected is None:
        assert not outcome.hits[0]
        assert outcome.reasons[0]
    else:
        assert bool(outcome.hits[0]) == bool(_OPERATORS[name[-2:]](expected, threshold))
        assert float(outcome.actual[name][0]) == expected


@pytest.mark.parametrize("condition", ["TO", "WO", "GE"])
@settings(max_examples=examples(100), deadline=None)
@given(array=arrays())
def test_overflow(condition: str, array: Array) -> None:
    outcome = check(condition, numbers(array))
    assert bool(outcome.hits[0]) == bool((~np.isfinite(array.astype(np.float64))).any())
    assert not outcome.reasons[0]


@settings(max_examples=examples(150), deadline=None)
@given(array=arrays(), ends=st.tuples(QUARTERS, QUARTERS), limit=st.sampled_from([0, 25, 50, 100]))
def test_ranges(array: Array, ends: tuple[float, float], limit: float) -> None:
    low, high = min(ends), max(ends)
    n = in_range([array], low, high)
    params = {"range_start_inclusive": low, "range_end_inclusive": high}
    below = check("TR", n, range_percentage_lt=limit, **params)
    above = check("AR", n, range_percentage_gt=limit, **params)
    if not array.size:
        assert below.reasons[0] and above.reasons[0]
        return
    inside = sum(1 for x in array.astype(np.float64).tolist() if low <= x <= high)
    share = 100 * inside / array.size
    assert bool(below.hits[0]) == (share < limit)
    assert bool(above.hits[0]) == (share > limit)


@st.composite
def pairs(draw: Any) -> tuple[Array, Array]:
    """Two arrays of one shape, of which some elements are equal."""
    dtype = draw(DTYPES)
    elements = ELEMENTS if dtype.startswith("float") else st.integers(-8, 8)
    before = draw(st.lists(elements, max_size=10))
    now = [old if draw(st.booleans()) else draw(elements) for old in before]
    return np.array(now, dtype), np.array(before, dtype)


@settings(max_examples=examples(300), deadline=None)
@given(pair=pairs(), limit=QUARTERS.map(abs), epsilon=st.sampled_from([0.0, 0.25, 1.0]))
def test_changes(pair: tuple[Array, Array], limit: float, epsilon: float) -> None:
    now, before = (array.astype(np.float64) for array in pair)
    n = changed(*pair)
    large = check("WCL", n, abs_mean_update_ratio_gt=limit, epsilon=epsilon)
    small = check("WCS", n, abs_mean_update_ratio_lt=limit, epsilon=epsilon)
    known = ~np.isnan(now) & ~np.isnan(before) & ~((now == before) & np.isinf(now))
    now, before = now[known], before[known]
    if not now.size:
        assert large.reasons[0] and small.reasons[0]
        return
    if np.isinf(now).any() or np.isinf(before).any():
        ratio = INF
    else:
        moved, size = np.abs(now - before).mean(), np.abs(before).mean()
        ratio = 0.0 if moved == 0 else (moved / (size + epsilon) if size + epsilon else INF)
    assert bool(large.hits[0]) == (ratio > limit)
    assert bool(small.hits[0]) == (ratio < limit)


@settings(max_examples=examples(300), deadline=None)
@given(
    pair=pairs(),
    rtol=st.sampled_from([0.0, 0.25, 1.0]),
    atol=st.sampled_from([0.0, 0.25, 1.0]),
    equal_nan=st.booleans(),
)
def test_not_changed(pair: tuple[Array, Array], rtol: float, atol: float, equal_nan: bool) -> None:
    outcome = check("WNC", changed(*pair, rtol, atol, equal_nan), rtol=rtol, atol=atol)
    now, before = (array.astype(np.float64) for array in pair)
    if not now.size:
        assert outcome.reasons[0]
        return
    expected = np.allclose(now, before, rtol=rtol, atol=atol, equal_nan=equal_nan)
    assert bool(outcome.hits[0]) == expected

"""The row against exact fractions, over dtypes, layouts and nasty numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import assert_row, reference

from opscope.stats.numpy_stats import BLOCK, row_of
from opscope.stats.row import EMPTY, Row

Array = np.ndarray[Any, Any]

LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda a: a,
    "transposed": lambda a: a[: len(a) // 2 * 2].reshape(-1, 2).T,
    "stepped": lambda a: np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1],
    "column": lambda a: np.stack([a, a[::-1]], axis=1)[:, 0],
    "expanded": lambda a: np.broadcast_to(a, (3, len(a))),
    "0-dim": lambda a: a[:1].reshape(()) if len(a) else a,
    "matrix without rows": lambda a: a[:0].reshape(0, 3),
}
layouts = st.sampled_from(sorted(LAYOUTS))


def floats(width: int) -> st.SearchStrategy[float]:
    """Any float of this width, with the nasty ones often."""
    limits = {16: 65504.0, 32: float(np.finfo("f4").max), 64: float(np.finfo("f8").max)}
    smallest = {16: 2.0**-24, 32: 2.0**-149, 64: 5e-324}[width]
    nasty = [math.nan, math.inf, -math.inf, 0.0, -0.0, limits[width], -limits[width], smallest]
    return st.sampled_from(nasty) | st.floats(width=width) | st.floats(-10, 10, width=width)


def float_lists() -> st.SearchStrategy[tuple[str, list[float]]]:
    """A float dtype and a list of its numbers."""
    return st.sampled_from([16, 32, 64]).flatmap(
        lambda width: st.tuples(st.just(f"f{width // 8}"), st.lists(floats(width), max_size=40))
    )


@settings(max_examples=400, deadline=None)
@given(float_lists(), layouts)
@example(("f8", [1e200, -1e200, 3.0]), "plain")
@example(("f8", [1.7e308, 1.7e308, -1.7e308]), "plain")
@example(("f8", [5e-324, -5e-324, 1e-310]), "plain")
@example(("f8", [1e16, 1e16 + 2]), "plain")
@example(("f4", [1e8, 1e8 + 8, 1e8 + 16]), "expanded")
@example(("f2", [65504.0] * 30), "plain")
def test_floats(typed: tuple[str, list[float]], layout: str) -> None:
    dtype, values = typed
    array = LAYOUTS[layout](np.array(values, dtype))
    assert_row(row_of(array), array.ravel().tolist())


def int_lists() -> st.SearchStrategy[tuple[str, list[int]]]:
    """An integer dtype and a list of its numbers."""
    kinds = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.tuples(
            st.just(kind.str),
            st.lists(
                st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
                | st.sampled_from([0, 1, int(np.iinfo(kind).min), int(np.iinfo(kind).max)]),
                min_size=1,
                max_size=40,
            ),
        )
    )


@settings(max_examples=300, deadline=None)
@given(int_lists(), layouts)
@example(("<i8", [2**62, 2**62 + 1, 2**62 + 2]), "plain")
@example(("<i8", [-(2**63), 2**63 - 1]), "expanded")
@example(("<u8", [2**64 - 1, 0, 2**63]), "plain")
def test_integers_are_exact(typed: tuple[str, list[int]], layout: str) -> None:
    dtype, values = typed
    array = LAYOUTS[layout](np.array(values, dtype))
    row, exact = row_of(array), array.ravel().tolist()
    if not exact:
        assert row == EMPTY or row.count == 0
        return
    expected = reference(exact)
    for name in Row._fields:
        if name not in ("l2", "std"):
            assert getattr(row, name) == expected[name], name
    assert type(row.min) is int and type(row.max) is int
    assert math.isclose(row.l2, expected["l2"], rel_tol=1e-12)
    slack = 1e-12 * expected["std"] + 2.0**-52 * (row.max - row.min)
    assert abs(row.std - expected["std"]) <= slack


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), layouts)
def test_bools_are_zero_and_one(values: list[bool], layout: str) -> None:
    array = LAYOUTS[layout](np.array(values))
    row, exact = row_of(array), [int(v) for v in array.ravel().tolist()]
    assert_row(row, exact)
    assert row.positive == sum(exact)
    if exact:
        assert type(row.max) is int


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["c8", "c16"]),
    st.lists(st.complex_numbers(max_magnitude=1e30) | st.sampled_from([3 + 4j, 0j]), max_size=20),
    st.lists(st.sampled_from([complex(math.nan, 1), complex(math.inf, 0)]), max_size=3),
    layouts,
)
def test_complex_is_of_the_modulus(
    dtype: str, values: list[complex], odd: list[complex], layout: str
) -> None:
    array = LAYOUTS[layout](np.array(values + odd, dtype))
    moduli = [math.hypot(v.real, v.imag) for v in array.ravel().tolist()]
    row, expected = row_of(array), reference(moduli)
    for name in ("count", "nan", "posinf", "zero", "negative", "positive"):
        assert getattr(row, name) == expected[name]
    for name in ("min", "max", "mean", "mean_abs", "l2"):
        found, wanted = getattr(row, name), expected[name]
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-300, nan_ok=True), name


@pytest.mark.parametrize("count", [BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 77])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u8"])
def test_many_elements(count: int, dtype: str) -> None:
    rng = np.random.default_rng(count)
    if dtype.startswith("f"):
        array = rng.normal(100, 0.5, count).astype(dtype)
        array[[3, count // 2, count - 1]] = [np.nan, np.inf, -np.inf]
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        array = rng.integers(low, high, count, dtype=dtype, endpoint=True)
    assert_row(row_of(array), array.tolist())


def test_a_tiny_spread_far_from_zero_is_not_lost() -> None:
    array = np.full(50_000, 1000.0) + np.tile([0.0, 1e-9], 25_000)
    row = row_of(array)
    exact = reference(array.tolist())
    assert row.std == pytest.approx(exact["std"], rel=1e-9)
    assert 4.9e-10 < row.std < 5.1e-10


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(0.1, "f4"), (0.1, "f8"), (0.7, "f8"), (1 / 3, "f8"), (-1e300, "f8"), (3e-320, "f8")],
)
def test_equal_elements_have_exactly_no_spread(value: float, dtype: str) -> None:
    for count in (3, 49, 30_001):
        row = row_of(np.full(count, value, dtype))
        assert row.std == 0.0
        assert row.mean == row.min == row.max


def test_means_of_the_largest_numbers_do_not_overflow() -> None:
    largest = float(np.finfo("f8").max)
    for count in range(1, 60):
        row = row_of(np.resize([largest, -largest], count))
        assert row.mean_abs == pytest.approx(largest, rel=1e-12)
        assert abs(row.mean) <= largest
        assert row.std <= largest


def test_std_is_of_the_population() -> None:
    assert row_of(np.array([1.0, 3.0])).std == 1.0
    assert row_of(np.array([7.0])).std == 0.0


def test_a_nan_does_not_blind_the_rest() -> None:
    row = row_of(np.array([3.0, -4.0, np.nan, np.inf]))
    assert (row.l2, row.mean, row.min, row.max) == (5.0, -0.5, -4.0, math.inf)
    assert (row.nan, row.posinf, row.neginf, row.finite) == (1, 1, 0, 2)


def test_min_and_max_leave_out_nan_and_keep_infinities() -> None:
    row = row_of(np.array([np.nan, -np.inf, np.nan], np.float32))
    assert (row.min, row.max) == (-math.inf, -math.inf)
    assert math.isnan(row.mean) and math.isnan(row.l2)
    assert (row.negative, row.positive, row.zero) == (1, 0, 0)


def test_negative_zero_is_zero() -> None:
    row = row_of(np.array([-0.0, 0.0, -1.0]))
    assert (row.zero, row.negative, row.positive) == (2, 1, 0)


def test_l2_overflows_only_when_it_must() -> None:
    assert row_of(np.full(4, 1e307)).l2 == pytest.approx(2e307, rel=1e-15)
    assert row_of(np.full(4, 1.7e308)).l2 == math.inf
    assert row_of(np.full(4, 1.7e308)).mean_abs == 1.7e308


def test_empty_has_no_numbers() -> None:
    for dtype in ("f4", "i8", "?", "c8"):
        row = row_of(np.empty((0, 4), dtype))
        assert row.count == row.zero == row.nan == 0
        assert all(math.isnan(value) for value in row[1:7])


def test_no_warning_and_no_error_whatever_the_user_set() -> None:
    nasty = np.array([np.nan, np.inf, 1.7e308, -1.7e308, 5e-324])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        row_of(nasty)
        row_of(nasty[2:])
        row_of(nasty.astype(complex))
        row_of(np.array([2**63 - 1, -(2**63)]))


def test_rows_are_plain_python_numbers() -> None:
    for array in (
        np.array([1.0, np.nan], "f4"),
        np.array([1.0], "f8"),
        np.arange(3),
        np.ones(2, "?"),
    ):
        assert {type(value) for value in row_of(array)} <= {int, float}


def test_what_has_no_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="<U1"):
        row_of(np.array(["a"]))

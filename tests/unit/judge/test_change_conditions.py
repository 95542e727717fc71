"""Conditions on what a weight was in the step before, at their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from made_numbers import INF, NAN, changed, check, numbers, reason

from opscope.judge.numbers import Change
from opscope.judge.outcome import NO_PREVIOUS, RESHAPED
from opscope.stats.two_tensors import difference, difference_of_arrays


def ratio(now: Any, before: Any, **params: float) -> float:
    """mean |now - before| / (mean |before| + epsilon), as WCL sees it."""
    outcome = check("WCL", changed(now, before), **params)
    assert outcome.reasons.tolist() == [0]
    return float(outcome.actual["abs_mean_update_ratio_gt"][0])


def is_unchanged(now: Any, before: Any, **params: float) -> bool:
    """Whether WNC holds, with the tolerances where they belong."""
    tolerances = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": 0.0} | params
    n = changed(now, before, tolerances["rtol"], tolerances["atol"], bool(tolerances["equal_nan"]))
    outcome = check("WNC", n, **params)
    assert outcome.reasons.tolist() == [0]
    return bool(outcome.hits[0])


def test_the_ratio_and_its_epsilon() -> None:
    assert ratio([1.5, 3.0], [1.0, 2.0]) == 0.75 / (1.5 + 1e-9)
    assert ratio([1.5, 3.0], [1.0, 2.0], epsilon=1.0) == 0.75 / 2.5
    assert ratio([1.5, 3.0], [1.0, 2.0], epsilon=0.0) == 0.5


def test_too_large_and_too_small_are_strict() -> None:
    n = changed([1.5, 3.0], [1.0, 2.0])
    assert not check("WCL", n, abs_mean_update_ratio_gt=0.5, epsilon=0.0).hits[0]
    assert check("WCL", n, abs_mean_update_ratio_gt=0.4999, epsilon=0.0).hits[0]
    assert not check("WCS", n, abs_mean_update_ratio_lt=0.5, epsilon=0.0).hits[0]
    assert check("WCS", n, abs_mean_update_ratio_lt=0.5001, epsilon=0.0).hits[0]


def test_from_zero() -> None:
    assert ratio([1.0, 4.0], [0.0, 0.0]) == 2.5 / 1e-9
    assert ratio([1.0, 4.0], [0.0, 0.0], epsilon=0.0) == INF
    assert check("WCL", changed([1.0], [0.0])).hits[0]


def test_zero_that_stays_zero_has_not_changed() -> None:
    assert ratio([0.0, -0.0], [0.0, 0.0]) == 0.0
    assert ratio([0.0, -0.0], [0.0, 0.0], epsilon=0.0) == 0.0
    assert check("WCS", changed([0.0], [0.0]), epsilon=0.0).hits[0]
    assert is_unchanged([0.0, -0.0], [-0.0, 0.0], rtol=0, atol=0)


def test_nan_is_left_out_of_the_ratio() -> None:
    assert ratio([1.5, NAN], [1.0, 5.0], epsilon=0.0) == 0.5
    assert ratio([1.5, 7.0], [1.0, NAN], epsilon=0.0) == 0.5
    nothing = check("WCL", changed([NAN], [NAN]))
    assert reason(nothing) == "no elements of the two steps can be compared"


def test_an_infinity_that_comes_or_goes_is_an_infinite_change() -> None:
    for now, before in [([INF, 1.0], [1.0, 1.0]), ([1.0, 1.0], [INF, 1.0]), ([INF], [-INF])]:
        assert ratio(now, before) == INF
        assert check("WCL", changed(now, before)).hits[0]
        assert not check("WCS", changed(now, before)).hits[0]
        assert not is_unchanged(now, before)


def test_an_infinity_that_stays_is_no_change() -> None:
    assert ratio([INF, 2.0], [INF, 1.0], epsilon=0.0) == 1.0
    assert is_unchanged([INF, 1.0, -INF], [INF, 1.0, -INF], rtol=0, atol=0)
    assert not is_unchanged([INF, 1.5], [INF, 1.0])


def test_tolerances_are_inclusive() -> None:
    assert is_unchanged([1.25], [1.0], rtol=0.25, atol=0)
    assert not is_unchanged([1.25], [1.0], rtol=0.24, atol=0)
    assert is_unchanged([1.25], [1.0], rtol=0, atol=0.25)
    assert not is_unchanged([1.25], [1.0], rtol=0, atol=0.24)
    assert is_unchanged([1.5], [1.0], rtol=0.25, atol=0.25)


def test_tolerances_are_of_what_it_was_before() -> None:
    assert is_unchanged([2.0], [4.0], rtol=0.5, atol=0)
    assert not is_unchanged([4.0], [2.0], rtol=0.5, atol=0)


def test_the_default_atol_hides_tiny_changes_and_can_be_set() -> None:
    assert is_unchanged([2e-10], [1e-10])
    assert not is_unchanged([2e-10], [1e-10], atol=0)


def test_equal_nan_does_what_it_says() -> None:
    assert not is_unchanged([NAN, 1.0], [NAN, 1.0])
    assert is_unchanged([NAN, 1.0], [NAN, 1.0], equal_nan=1)
    assert not is_unchanged([NAN, 1.0], [1.0, 1.0], equal_nan=1)
    assert not is_unchanged([1.0, 1.0], [NAN, 1.0], equal_nan=1)


def test_one_element_is_enough_to_have_changed() -> None:
    before = np.ones(10_000, np.float32)
    now = before.copy()
    now[-1] = 2
    outcome = check("WNC", changed(now, before))
    assert not outcome.hits[0]
    assert outcome.actual["outside"].tolist() == [1]


@pytest.mark.parametrize("condition", ["WNC", "WCL", "WCS"])
def test_without_a_previous_step_nothing_is_checked(condition: str) -> None:
    assert reason(check(condition, numbers([1.0]))) == "there is no value of an earlier step"
    assert reason(check(condition, numbers([]))) == "the tensor is empty"
    change = Change(*(np.zeros(3) for _ in range(3)), np.zeros(3, bool))
    missing = np.array([0, NO_PREVIOUS, RESHAPED], np.uint8)
    outcome = check(condition, numbers([1.0], [1.0], [1.0], change=change, missing=missing))
    assert not outcome.hits[1:].any()
    assert outcome.reasons.tolist() == [0, NO_PREVIOUS, RESHAPED]


def test_whole_numbers_and_bools() -> None:
    assert is_unchanged(np.array([2**62]), np.array([2**62]), rtol=0, atol=0)
    assert not is_unchanged(np.array([2**62 + 1]), np.array([2**62]), rtol=0, atol=0)
    assert ratio(np.array([3, 5]), np.array([1, 3]), epsilon=0.0) == 1.0
    assert ratio([True, False], [True, True], epsilon=0.0) == 0.5


@pytest.mark.parametrize("equal_nan", [False, True])
def test_native_and_numpy_agree_on_nan_and_infinities(equal_nan: bool) -> None:
    specials = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1.000001, 2.0]
    now, before = (np.array(x, np.float32).ravel() for x in np.meshgrid(specials, specials))
    for a, b in zip(now, before, strict=True):
        one, other = np.array([a, 1.0], np.float32), np.array([b, 1.0], np.float32)
        native = difference(
            torch.from_numpy(one), torch.from_numpy(other), rtol=1e-5, atol=0, equal_nan=equal_nan
        )
        plain = difference_of_arrays(one, other, 1e-5, 0, equal_nan)
        np.testing.assert_array_equal(native, plain, str((a, b)))
        expected = np.allclose(one, other, rtol=1e-5, atol=0, equal_nan=equal_nan)
        assert (native.outside == 0) == expected, (a, b)
        same_infinity = np.isinf(a) and a == b
        assert np.isposinf(native.max) == (
            not (np.isnan(a) or np.isnan(b)) and bool(np.isinf(a) or np.isinf(b)) != same_infinity
        )

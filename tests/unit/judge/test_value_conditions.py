"""Conditions on single values, at their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_numbers import INF, NAN, check, hits, in_range, numbers, reason

from opscope.judge.catalogue import BY_NAME
from opscope.judge.conditions.activation_saturated import check_saturated

EMPTY = "the tensor is empty"
ONLY_NAN = "the tensor holds nothing but NaN"
BOTH = "the tensor holds both +Inf and -Inf, so it has no mean"
LARGE, SMALL, RANGES = ("TL", "WL", "GL"), ("TS", "WS", "GV"), ("TR", "AR")


@pytest.mark.parametrize("condition", ["TO", "WO", "GE"])
def test_any_nan_or_inf_is_an_overflow(condition: str) -> None:
    outcome = check(condition, numbers([1.0, 2.0], [NAN, 1.0], [INF], [-INF, NAN, NAN], [NAN]))
    assert outcome.hits.tolist() == [False, True, True, True, True]
    assert outcome.reasons.tolist() == [0] * 5
    assert outcome.actual["nan"].tolist() == [0, 1, 0, 2, 1]
    assert outcome.actual["inf"].tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("value", [np.array([], np.float32), np.array([2**62, -1]), [True, False]])
def test_no_overflow_in_what_is_empty_or_whole(value: Any) -> None:
    assert not hits("TO", value)


@pytest.mark.parametrize("condition", LARGE)
@pytest.mark.parametrize("name", ["max_gt", "min_gt", "mean_gt", "abs_mean_gt"])
def test_above_is_strict(condition: str, name: str) -> None:
    assert not hits(condition, [3.0, 3.0], **{name: 3.0})
    assert hits(condition, [3.0, 3.0], **{name: np.nextafter(3.0, 0)})


@pytest.mark.parametrize("condition", SMALL)
@pytest.mark.parametrize("name", ["max_lt", "min_lt", "mean_lt", "abs_mean_lt"])
def test_below_is_strict(condition: str, name: str) -> None:
    assert not hits(condition, [3.0, 3.0], **{name: 3.0})
    assert hits(condition, [3.0, 3.0], **{name: np.nextafter(3.0, 4)})


def test_each_number_is_the_one_it_says() -> None:
    value = [-4.0, 1.0, 2.0, 3.0]
    outcome = check("TL", numbers(value), max_gt=9, min_gt=9, mean_gt=9, abs_mean_gt=9)
    assert {name: float(actual[0]) for name, actual in outcome.actual.items()} == {
        "max_gt": 3.0,
        "min_gt": -4.0,
        "mean_gt": 0.5,
        "abs_mean_gt": 2.5,
    }


def test_several_parameters_are_or() -> None:
    assert hits("TL", [1.0, 5.0], max_gt=4, mean_gt=100)
    assert hits("TL", [1.0, 5.0], max_gt=100, mean_gt=2)
    assert not hits("TL", [1.0, 5.0], max_gt=100, mean_gt=100)
    assert hits("WI", [0.0, 0.0, 1.0], zero_percentage_ge=100, min_lt=0.5)


def test_a_nan_does_not_blind_a_threshold() -> None:
    assert hits("TL", [NAN, 5.0], max_gt=4)
    assert hits("TL", [NAN, 5.0, 3.0], mean_gt=3.9)
    assert not hits("TL", [NAN, 5.0, 3.0], mean_gt=4)
    assert hits("TS", [NAN, -5.0], min_lt=-4)
    assert hits("TR", [NAN, 1.0, 9.0], max_min_gt=7)


def test_infinities_take_part_as_infinities() -> None:
    assert hits("TL", [1.0, 2.0, INF, 4.0], max_gt=1)
    assert hits("TL", [1.0, INF], mean_gt=1e300)
    assert hits("TL", [1.0, -INF], abs_mean_gt=1e300)
    assert hits("TS", [1.0, -INF], mean_lt=-1e300)
    assert hits("TS", [1.0, -INF], min_lt=-1e300)
    assert not hits("TS", [INF, INF], max_lt=1e300)
    assert hits("TR", [-INF, INF], max_min_gt=1e300)
    assert hits("TL", [INF, NAN], mean_gt=1)


def test_a_mean_over_both_infinities_is_not_checked() -> None:
    assert reason(check("TL", numbers([INF, -INF, 1.0]), mean_gt=0)) == BOTH
    assert reason(check("TS", numbers([INF, -INF, 1.0]), mean_lt=0)) == BOTH
    assert hits("TL", [INF, -INF], abs_mean_gt=0)
    assert hits("TL", [INF, -INF], mean_gt=0, max_gt=0)


def test_a_spread_between_equal_infinities_is_not_checked() -> None:
    assert reason(check("TR", numbers([INF, INF]), max_min_gt=0)).startswith("max and min are")


@pytest.mark.parametrize(
    ("condition", "params"),
    [("TL", {name: 0}) for name in ("max_gt", "min_gt", "mean_gt", "abs_mean_gt")]
    + [("TS", {name: 0}) for name in ("max_lt", "min_lt", "mean_lt", "abs_mean_lt")]
    + [("TR", {"max_min_gt": 0}), ("TR", {"max_min_lt": 1}), ("WI", {"max_gt": 0})],
)
def test_nothing_to_look_at_is_said(condition: str, params: dict[str, float]) -> None:
    assert reason(check(condition, numbers(np.array([], np.float32)), **params)) == EMPTY
    if condition != "WI":  # all of whose elements may be zero, or not
        assert reason(check(condition, numbers([NAN, NAN]), **params)) == ONLY_NAN


@pytest.mark.parametrize("condition", ["TZ", "WI", "AD"])
def test_zero_percentage_is_inclusive_and_of_all_elements(condition: str) -> None:
    assert hits(condition, [0.0, 0.0, 1.0, 2.0], zero_percentage_ge=50)
    assert not hits(condition, [0.0, 0.0, 1.0, 2.0], zero_percentage_ge=50.01)
    assert hits(condition, [0.0, -0.0], zero_percentage_ge=100)
    assert not hits(condition, [0.0, NAN], zero_percentage_ge=51)
    assert not hits(condition, [NAN, NAN], zero_percentage_ge=1)
    assert not hits(condition, [0.0, INF], zero_percentage_ge=51)
    assert hits(condition, np.zeros(7, np.int64), zero_percentage_ge=100)
    assert hits(condition, [False, True], zero_percentage_ge=50)
    assert reason(check(condition, numbers([]))) == EMPTY


@pytest.mark.parametrize("size", [1, 3, 7, 49, 1_000_003])
def test_all_of_it_is_exactly_a_hundred_percent(size: int) -> None:
    assert hits("TZ", np.zeros(size, np.float32))


@pytest.mark.parametrize("condition", RANGES)
def test_ranges_are_of_all_elements(condition: str) -> None:
    ends = {"range_start_inclusive": 0, "range_end_inclusive": 1}
    n = in_range([[0.0, 1.0, 2.0, -1.0], [NAN, 0.5], [NAN, NAN], [INF, 1.0]], 0, 1)
    below = check(condition, n, range_percentage_lt=50, **ends)
    assert below.hits.tolist() == [False, False, True, False]
    assert below.actual["range_percentage_lt"].tolist() == [50, 50, 0, 50]
    above = check(condition, n, range_percentage_gt=49.9, **ends)
    assert above.hits.tolist() == [True, True, False, True]
    empty = in_range([[]], 0, 1)
    assert reason(check(condition, empty, range_percentage_lt=50, **ends)) == EMPTY


def test_a_range_that_was_not_counted_is_said() -> None:
    unknown = check("TR", numbers([1.0, 2.0]), range_percentage_lt=50, range_end_inclusive=1)
    assert reason(unknown).startswith("its values were not kept")
    n = numbers([1.0], [2.0], in_range=np.array([0.0, 0.0]), missing=np.array([0, 6], np.uint8))
    partly = check("TR", n, range_percentage_lt=50, range_end_inclusive=1)
    assert (partly.hits.tolist(), partly.reasons.tolist()) == ([True, False], [0, 6])
    assert hits("TR", [1.0, 9.0], range_percentage_lt=50, range_end_inclusive=1, max_min_gt=2)


def test_the_spread_is_strict_on_both_sides() -> None:
    assert not hits("TR", [1.0, 3.0], max_min_gt=2)
    assert not hits("TR", [1.0, 3.0], max_min_lt=2)
    assert hits("TR", [1.0, 3.0], max_min_gt=1.99)
    assert hits("TR", [1.0, 3.0], max_min_lt=2.01)


def test_whole_numbers() -> None:
    assert hits("TL", np.array([2**62, 1]), max_gt=2**61)
    assert not hits("TL", np.array([2**62, 1]), max_gt=2**62)
    assert hits("TL", np.array([2**64 - 1], np.uint64), max_gt=2**63)
    assert hits("TS", np.array([-(2**63)]), min_lt=-(2.0**62))
    assert hits("TL", [True, True, False], mean_gt=0.6)
    assert reason(check("TL", numbers(np.array([], np.int64)), max_gt=0)) == EMPTY


def test_saturated_activations() -> None:
    params = BY_NAME["AS"].defaults
    tanh, sigmoid = check_saturated("tanh"), check_saturated("sigmoid_")
    n = numbers([1.0, -1.0, 1.0], [1.0, -1.0, 0.99], [NAN, 0.5], [NAN], [])
    assert tanh(n, params).hits.tolist() == [True, False, False, False, False]
    assert tanh(n, params).reasons.tolist() == [0, 0, 0, 2, 1]
    n = numbers([1.0, 0.0, 1.0], [1.0, 0.5], [0.0, 0.0])
    assert sigmoid(n, params).hits.tolist() == [True, False, True]
    assert not tanh(numbers([0.0, 0.0]), params).hits[0]

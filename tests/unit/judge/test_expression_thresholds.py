"""The thresholds of an expression: found where they stand, whatever the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_numbers import numbers

from opscope.errors import OpscopeError
from opscope.judge.conditions.expression import measuring
from opscope.judge.expression_thresholds import thresholds
from opscope.judge.expressions import NAMES, parse_number

WORDS = st.sampled_from(
    [
        *NAMES,
        "1",
        "-2.5",
        "1e3",
        ".5",
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "and",
        "or",
        "not",
        *"()+-*/",
        "abs",
    ]
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("max > 10 and zero_share < 0.5", [("max", ">", 10), ("zero_share", "<", 0.5)]),
        ("0 < max <= 1e3", [("max", ">", 0), ("max", "<=", 1000)]),
        ("(max - min) / 2 > -3", [("(max - min) / 2", ">", -3)]),
        ("not (1 >= abs(min) or std < .5)", [("abs(min)", "<=", 1), ("std", "<", 0.5)]),
        ("max > min", []),
        ("max == 3", []),
        ("max > 2 * 3", []),
    ],
)
def test_numbers_that_something_is_compared_with(
    text: str, found: list[tuple[str, str, float]]
) -> None:
    assert [(each.measured, each.sign, each.value) for each in thresholds(text)] == found
    assert [float(text[each.start : each.end]) for each in thresholds(text)] == [
        value for _, _, value in found
    ]


@given(st.lists(WORDS, max_size=30).map(" ".join))
@settings(max_examples=300, deadline=None)
def test_another_number_in_its_place_leaves_the_rest(text: str) -> None:
    try:
        found = thresholds(text)
    except OpscopeError:
        return
    for place, each in enumerate(found):
        parse_number(each.measured)
        moved = thresholds(f"{text[: each.start]}123{text[each.end :]}")
        assert len(moved) == len(found)
        assert moved[place][:3] == (each.measured, each.sign, 123.0)


def test_what_is_compared_is_measured() -> None:
    check = measuring("max - min").check
    assert check is not None
    outcome = check(numbers([-2.0, 0.0, 6.0]), {})
    assert outcome.hits.tolist() == [True] and outcome.actual["max - min"].tolist() == [8.0]
    assert check(numbers([]), {}).hits.tolist() == [False]

"""Expressions: what they mean, what is wrong with them, and that no text does harm."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_numbers import INF, NAN, numbers

from opscope.errors import ConfigError, OpscopeError
from opscope.judge.conditions.expression import condition_of
from opscope.judge.expressions import NAMES, parse_expression
from opscope.judge.outcome import REASONS
from opscope.judge.watch_set import from_json, load

VALUE = [-2.0, 0.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("max > 5", True),
        ("max > 6", False),
        ("max >= 6", True),
        ("max > 5 and zero_share < 0.5", False),
        ("max > 5 and zero_share <= 0.5", True),
        ("max < 5 or min == -2", True),
        ("not max < 5", True),
        ("not (max < 5 or min < 0)", False),
        ("0 < mean < 2", True),
        ("mean != 1", False),
        ("range == 8", True),
        ("(max + min) * 2 > 7.5", True),
        ("max - -min == 4", True),
        ("abs(min) / max < 0.34", True),
        ("sqrt(l2 * l2) > 6.3 and log10(count) > 0.6", True),
        ("((max)) > ((5))", True),
        ("mean_abs == 2 and std > 3 and std < 3.01", True),
        ("nan + inf + posinf + neginf == 0 and zero == 2", True),
        ("nan_share > 0 or inf_share > 0", False),
        ("1e1 > .5", True),
    ],
)
def test_what_expressions_mean(text: str, holds: bool) -> None:
    assert parse_expression(text).holds(numbers(VALUE)).tolist() == [holds]


@pytest.mark.parametrize(
    ("value", "text", "hit", "reason"),
    [
        ([NAN, NAN], "max > 0", False, "nothing but NaN"),
        ([NAN, 3.0], "max > 0", True, ""),
        ([NAN, NAN], "nan_share == 1", True, ""),
        ([], "count < 1", False, "empty"),
        ([INF, -INF], "mean < 5", False, "both +Inf and -Inf"),
        ([INF, 1.0], "mean > 5 and std > 5 and l2 > 5 and mean_abs > 5", True, ""),
        ([INF], "range < 3", False, "same infinity"),
        ([NAN], "not max > 0", True, ""),
    ],
)
def test_what_does_not_exist(value: list[float], text: str, hit: bool, reason: str) -> None:
    check = condition_of(text).check
    assert check is not None
    outcome = check(numbers(value), {})
    assert bool(outcome.hits[0]) == hit
    assert reason in REASONS[outcome.reasons[0]] and bool(reason) == bool(outcome.reasons[0])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a number or a statistic is missing"),
        ("max", "a comparison (<, <=, >, >=, ==, !=) is expected"),
        ("max >", "at the end: a number or a statistic is missing"),
        ("max > 3 3", "at character 9: '3' is not expected"),
        ("(max > 3", "a ) is missing"),
        ("maxi > 3", 'maxi is no statistic (did you mean "max"?); there are min, max'),
        ("max = 3", "at character 5: '=' has no meaning here; write == to compare"),
        ("max > 3 & min < 2", "write and"),
        ("max > 1e999", "too large"),
        ("abs max > 3", "abs needs ( )"),
        ("max.__class__ > 3", "has no meaning here"),
        ("__import__('os') > 3", "has no meaning here"),
        ("max > and", "expected, not 'and'"),
        ("(" * 60 + "max" + ")" * 60 + "> 1", "nested more than 50 deep"),
        ("max > 1" + " and max > 1" * 100, "at most 1000 characters"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(OpscopeError) as raised:
        parse_expression(text)
    assert problem in str(raised.value)


@given(st.text(st.sampled_from("maxin>=<()+-*/ .019e_andotrszl&|'\"\n\\é"), max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        expression = parse_expression(text)
    except OpscopeError as error:
        assert str(error).startswith(("the expression", "an expression"))
        return
    assert expression.holds(numbers(VALUE, [NAN], [INF])).dtype == np.bool_


WORDS = st.sampled_from(
    [*NAMES, "and", "or", "not", "(", ")", "<", ">", "==", "+", "-", "*", "/", "abs", "1", "2.5"]
)


@given(st.lists(WORDS, max_size=40).map(" ".join))
@settings(max_examples=400, deadline=None)
def test_any_words_are_understood_or_refused_at_once(text: str) -> None:
    start = time.process_time()
    try:
        parse_expression(text).holds(numbers(VALUE, [NAN], [INF]))
    except OpscopeError:
        pass
    assert time.process_time() - start < 1


def test_parentheses_are_read_in_no_time() -> None:
    start = time.process_time()
    assert parse_expression("(" * 24 + "max" + ")" * 24 + "> 1").holds(numbers(VALUE)).all()
    assert parse_expression("(" * 24 + "max > 1" + ")" * 24).holds(numbers(VALUE)).all()
    assert time.process_time() - start < 1


def test_as_a_watchpoint_on_the_command_line_and_in_a_file() -> None:
    watch = load(
        "max > 10 and zero_share < 0.5 scope=*/conv1-* name=big; TO; 'l2 > 3' class=weight"
    )
    first, second, third = watch
    assert first.text == "max > 10 and zero_share < 0.5" and first.label == "big"
    assert first.select.scope == "*/conv1-*" and first.condition.abbr == "EX"
    assert second.condition.abbr == "TO"
    assert third.cls == "weight" and third.text == "l2 > 3"
    again = from_json(watch.to_json(), "file")
    assert [each.to_json() for each in again] == [each.to_json() for each in watch]
    assert watch.change(1, condition="max > 20").text == "max > 20"


@pytest.mark.parametrize("text", ["max > ten", "EX", "expression", "max > 1 max_gt=3"])
def test_wrong_ones_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ConfigError):
        load(text)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.settings.iterations import MAX_STEP, Iterations


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0", {0}),
        ("0|5-8", {0, 5, 6, 7, 8}),
        (" 0 | 5 - 8 |\t10 ", {0, 5, 6, 7, 8, 10}),
        ("3-3", {3}),
        ("007", {7}),
        ("1|1|0-1", {0, 1}),
        ("8|2-3", {2, 3, 8}),
    ],
)
def test_selects_exactly_these_steps(text: str, steps: set[int]) -> None:
    iterations = Iterations.parse(text)
    assert {step for step in range(-2, 20) if step in iterations} == steps
    assert iterations.last == max(steps)
    assert not iterations.all
    assert str(iterations) == text


@pytest.mark.parametrize("text", ["all", " all ", "ALL"])
def test_all_has_no_end(text: str) -> None:
    iterations = Iterations.parse(text)
    assert iterations.all
    assert iterations.last is None
    assert iterations.contains(0)
    assert iterations.contains(MAX_STEP)
    assert not iterations.contains(-1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3-1", '"3-1" counts down; write "1-3"'),
        ("0|9-5", '"9-5" counts down'),
        ("2-", '"2-" is not a step or a range'),
        ("-1", '"-1" is not a step or a range'),
        ("-", '"-" is not a step or a range'),
        ("1 2", '"1 2" is not a step or a range'),
        ("0-1-2", '"0-1-2" is not understood'),
        ("", "is empty"),
        ("   ", "is empty"),
        ("abc", '"abc" is not understood'),
        ("0,2", '"0,2" is not understood'),
        ("1.5", '"1.5" is not understood'),
        ("²", "is not understood"),
        ("٣", "is not understood"),
        ("0||2", "part 2 of 3 is empty"),
        ("0|", "part 2 of 2 is empty"),
        ("|", "part 1 of 2 is empty"),
        ("0|all", '"all" stands alone'),
        (str(2**63), "too large"),
        ("99999999999999999999", "too large"),
        ("9" * 5000, "too large"),
    ],
)
def test_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        Iterations.parse(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [0, 1.0, True, None, [0, 1], {}])
def test_only_strings(value: object) -> None:
    with pytest.raises(ValueError, match="must be a string"):
        Iterations.parse(value)


def test_the_largest_step_is_allowed() -> None:
    assert Iterations.parse(str(MAX_STEP)).last == MAX_STEP
    assert MAX_STEP in Iterations.parse(f"5-{MAX_STEP}")


def test_equal_when_they_select_the_same() -> None:
    assert Iterations.parse("0|1|2") == Iterations.parse("0 - 2")
    assert Iterations.parse("0|2") != Iterations.parse("0-2")


RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
    max_size=6,
)
BLANKS = st.sampled_from(["", " ", "\t", "  "])


@given(RANGES, BLANKS)
def test_same_as_a_set_of_numbers(ranges: list[tuple[int, int]], blank: str) -> None:
    reference = {step for low, high in ranges for step in range(low, high + 1)}
    parts = [f"{low}" if low == high else f"{low}{blank}-{blank}{high}" for low, high in ranges]
    iterations = Iterations.parse(f"{blank}|{blank}".join(parts))
    assert {step for step in range(-1, 60) if iterations.contains(step)} == reference
    assert iterations.last == max(reference)
    gaps = zip(iterations.ranges, iterations.ranges[1:], strict=False)
    assert all(high + 1 < low for (_, high), (low, _) in gaps)


@given(RANGES, RANGES, st.integers(0, 20), st.integers(1, 9))
def test_meets_as_sets_do(
    mine: list[tuple[int, int]], other: list[tuple[int, int]], shift: int, every: int
) -> None:
    def parse(ranges: list[tuple[int, int]]) -> Iterations:
        return Iterations.parse("|".join(f"{low}-{high}" for low, high in ranges))

    first, second = parse(mine), parse(other)
    reference = any(step in first and step + shift in second for step in range(0, 60, every))
    assert first.meets(second, shift, every) is reference


@given(st.text(alphabet="0123456789-| al", max_size=12))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        iterations = Iterations.parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert iterations.all or iterations.ranges

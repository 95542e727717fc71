"""How parameters fare over the steps."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.made_rows import record_of
from opscope.judge.history import ParameterHistory, digests
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import INPUT, ROW_DTYPE


def rows(*values: list[float]) -> np.ndarray:
    made = (record_of(row_of(np.array(v)), INPUT, 0, 0, 0, 0, 0, 0) for v in values)
    return np.frombuffer(b"".join(map(bytes, made)), ROW_DTYPE)


def numbers(*which: int) -> np.ndarray:
    return np.array(which, np.int32)


def test_what_changed_and_what_never_did() -> None:
    history = ParameterHistory()
    history.observe(numbers(0, 1), rows([1, 2], [3, 4]))
    assert history.seen.tolist() == [0, 0], "there is nothing to compare with"
    history.observe(numbers(0, 1), rows([1, 2], [3, 5]))
    assert history.changed.tolist() == [False, True]
    history.observe(numbers(0, 1), rows([1, 2], [3, 5]))
    assert history.changed.tolist() == [False, False]
    assert history.changed_ever.tolist() == [False, True]
    assert history.seen.tolist() == [2, 2]


def test_a_parameter_that_is_not_always_used() -> None:
    history = ParameterHistory()
    history.observe(numbers(0, 2), rows([1], [2]))
    history.observe(numbers(2), rows([3]))
    history.observe(numbers(0), rows([9]))
    assert history.changed.tolist() == [True, False, False], "2 was not seen in this step"
    assert history.seen.tolist() == [1, 0, 1]
    history.observe(numbers(), rows())
    assert history.seen.tolist() == [1, 0, 1]


def test_the_smallest_change_counts() -> None:
    history = ParameterHistory()
    history.observe(numbers(0), rows([1.0, 2.0]))
    history.observe(numbers(0), rows([np.nextafter(1.0, 2), 2.0]))
    assert history.changed.tolist() == [True]
    history.observe(numbers(0), rows([np.nan, 2.0]))
    assert history.changed.tolist() == [True]
    history.observe(numbers(0), rows([np.nan, 2.0]))
    assert history.changed.tolist() == [False], "NaN is what it was"


def test_digests() -> None:
    found = digests(["one", "same", "other"], rows([1, 2], [1, 2], [1, 3]))
    assert found["one"] == found["same"] != found["other"]
    assert len(found["one"]) == 16


VALUES = st.sampled_from([1.0, -1.0, 2.0, math.nan])
"""1 and -1 have the same norm, which does not tell them apart."""


ANY_OF_FIVE = st.dictionaries(st.integers(0, 4), VALUES)
ALL_OF_TWO = st.fixed_dictionaries({0: VALUES, 1: VALUES})
"""Most trainings use the same parameters in each step."""


@given(
    st.one_of(
        st.lists(ANY_OF_FIVE, max_size=12),
        st.lists(ALL_OF_TWO, max_size=12),
        st.lists(st.one_of(ALL_OF_TWO, ALL_OF_TWO, ANY_OF_FIVE), max_size=12),
    )
)
def test_it_is_what_a_plain_count_finds(steps: list[dict[int, float]]) -> None:
    history = ParameterHistory()
    last: dict[int, float] = {}
    seen, still, ever = Counter[int](), Counter[int](), set[int]()
    arrays: dict[tuple[int, ...], np.ndarray] = {}
    for step in steps:
        used = tuple(sorted(step))
        of = arrays.setdefault(used, numbers(*used))
        history.observe(of, rows(*([step[which]] for which in used)))
        changed = {w for w in used if w in last and repr(last[w]) != repr(step[w])}
        for which in used:
            if which in last:
                seen[which] += 1
                still[which] = 0 if which in changed else still[which] + 1
        ever |= changed
        last |= step
        if used:
            assert set(np.flatnonzero(history.changed)) == changed
            assert history.all_changed <= (changed == set(range(len(history.seen))))
    assert history.seen.tolist() == [seen[which] for which in range(len(history.seen))]
    assert history.still.tolist() == [still[which] for which in range(len(history.seen))]
    assert set(np.flatnonzero(history.changed_ever)) == ever


def test_the_rows_of_earlier_steps_stay_as_they_are() -> None:
    history, before = ParameterHistory(), rows([1.0], [2.0]).copy()
    both, one = numbers(0, 1), numbers(0)
    history.observe(both, before)
    history.observe(both, before)
    history.observe(one, rows([7.0]))
    assert before["mean"].tolist() == [1.0, 2.0]

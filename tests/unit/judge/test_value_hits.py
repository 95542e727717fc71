"""Rows against watchpoints, said in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.made_rows import record_of
from opscope.events import IO, TRAINING_GRAPH, Node, Phase, Stack
from opscope.judge.catalogue import BY_NAME
from opscope.judge.numbers import NumberColumns
from opscope.judge.parsing import make
from opscope.judge.value_hits import ValuePlace, hits_of, io_of, outcome_of, reason_text
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import INPUT, OUTPUT, ROW_DTYPE

NODE = Node(
    7, TRAINING_GRAPH, "Default/relu-op0", "relu", "aten.relu", "Default", "", Phase.FORWARD,
    Stack(0, ()),
)  # fmt: skip


def rows(*values: list[float]) -> np.ndarray:
    made = (record_of(row_of(np.array(v)), OUTPUT, 0, 0, 4, 7, 9, 0) for v in values)
    return np.frombuffer(b"".join(map(bytes, made)), ROW_DTYPE)


def hits(condition: str, *values: list[float], **params: Any) -> list[Any]:
    watchpoint, records = make(condition, 1, **params), rows(*values)
    outcome = outcome_of(watchpoint, NumberColumns.of_records(records), NODE)
    place = ValuePlace(4, 0, NODE, IO.OUTPUT, 0, 9)
    return list(hits_of(watchpoint, outcome, records, dict.fromkeys(range(len(records)), place)))


def test_hits_of_some_values() -> None:
    found = hits("TL", [1.0, 2.0], [5.0, 7.0], [4.0], max_gt=4)
    assert [(hit.actual, hit.seen) for hit in found] == [({"max_gt": 7.0}, "max is 7, above 4")], (
        "4 is not above 4"
    )
    assert (found[0].step, found[0].call, found[0].about) == (4, 9, "Default/relu-op0:0")


def test_only_the_thresholds_that_were_passed_are_told() -> None:
    (hit,) = hits("TL", [1.0, 9.0], max_gt=4, min_gt=3)
    assert hit.seen == "max is 9, above 4"
    (hit,) = hits("TL", [5.0, 9.0], max_gt=4, min_gt=3)
    assert hit.seen == "max is 9, above 4 and min is 5, above 3"


def test_nan_and_inf_are_counted() -> None:
    (hit,) = hits("TO", [1.0, np.nan, np.inf, -np.inf], [1.0])
    assert (hit.nan, hit.posinf, hit.neginf) == (1, 1, 1)
    assert hit.seen == "a tensor holds NaN or Inf: 1 NaN, 2 Inf"
    assert hit.actual == {} and hit.nonfinite


def test_percentages() -> None:
    (hit,) = hits("TZ", [0.0, 0.0, 0.0, 1.0], [0.0, 1.0], zero_percentage_ge=75)
    assert "75 %" in hit.message
    assert hit.actual == {"zero_percentage_ge": 75.0}


@pytest.mark.parametrize(
    ("op", "values", "hits"),
    [
        ("tanh", [-1.0, 1.0], True),
        ("tanh", [0.5, 1.0], False),
        ("sigmoid", [1.0, 1.0], True),
        ("sigmoid", [0.5, 1.0], False),
    ],
)
def test_the_check_of_a_saturated_activation_depends_on_it(
    op: str, values: list[float], hits: bool
) -> None:
    node = Node(7, TRAINING_GRAPH, "x", op, "", "", "", Phase.FORWARD, Stack(0, ()))
    outcome = outcome_of(make("AS", 1), NumberColumns.of_records(rows(values)), node)
    assert outcome.hits.tolist() == [hits]


def test_words() -> None:
    (hit,) = hits("TL", [2.0], max_gt=1)
    assert hit.advice == BY_NAME["TL"].advice
    assert hit.message == f"{hit.seen}; {hit.advice}"
    assert reason_text(0) == "" and "empty" in reason_text(1)
    assert io_of(rows([1.0])[0]) is IO.OUTPUT
    other = rows([1.0]).copy()
    other["io"] = INPUT
    assert io_of(other[0]) is IO.INPUT

"""Watchpoints from code and data, and what is said of wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
from test_selection import make_node

from opscope.errors import ConfigError
from opscope.judge.parsing import make, parse


def problems(data: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(data, 1, "w.json", "watchpoints[0]")
    return str(error.value).splitlines()


def test_from_code() -> None:
    found = make("TL", 4, max_gt=10, scope="*/conv-*", name="big", mute="model.py:3")
    assert (found.id, found.condition.abbr, found.params) == (4, "TL", {"max_gt": 10.0})
    assert (found.select.scope, found.label, found.text) == ("*/conv-*", "big", "TL max_gt=10")
    assert found.mute == ("model.py:3",)
    assert make("tensor_too_large", max_gt=1).condition.abbr == "TL"
    assert make("tl", max_gt=1).condition.abbr == "TL"


def test_defaults() -> None:
    assert make("TZ").params == {"zero_percentage_ge": 100}
    assert make("WNC").params == {"rtol": 1e-5, "atol": 1e-8, "equal_nan": 0}
    assert make("WNC", equal_nan=True).params["equal_nan"] == 1
    assert make("WI", max_gt=1).params == {"max_gt": 1}, "a chosen threshold stands alone"
    assert make("WCL", epsilon=1).params == {"abs_mean_update_ratio_gt": 0.1, "epsilon": 1}


def test_the_class() -> None:
    assert make("TO").cls == "tensor"
    assert make("TO", cls="weight").cls == "weight"
    assert make("WO").cls == "weight"


def test_there_and_back() -> None:
    for watchpoint in (
        make("TR", 3, range_percentage_lt=50, range_start_inclusive=-1, range_end_inclusive=1),
        make("WNC", 1, equal_nan=True, parameter="fc*"),
        make("TO", 2, enabled=False, mute=["a", "b.py:2"], name="x", cls="gradient"),
        make("LS", 9),
    ):
        assert parse(watchpoint.to_json(), 0, "", "") == watchpoint


def test_muting() -> None:
    node = make_node()
    for what in ("relu-op0", "*/act-*", "model.py:12", "train.py", "7"):
        assert make("TO", mute=what).is_muted(node), what
    assert not make("TO", mute=["model.py:13", "gelu-op0"]).is_muted(node)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], "w.json: watchpoints[0] = []: must be an object, { ... }, not a list"),
        ({}, "w.json: watchpoints[0].condition: is missing; there are TO, OO, "),
        ({"condition": "TLL"}, '.condition = "TLL": is no condition'),
        ({"condition": 3}, ".condition = 3: is no condition"),
        ({"condition": "TO", "nmae": 1}, '.nmae = 1: unknown key (did you mean "name"?)'),
        ({"condition": "TL"}, "TL needs at least one of abs_mean_gt, max_gt, min_gt, mean_gt"),
        (
            {"condition": "TL", "params": {"max_lt": 1, "max_gt": 1}},
            'unknown parameter of TL (did you mean "max_gt"?); it has',
        ),
        ({"condition": "TO", "params": {"max_gt": 1}}, "unknown parameter of TO; it has none"),
        (
            {"condition": "TL", "params": {"max_gt": True}},
            ".max_gt = true: must be a finite number",
        ),
        ({"condition": "TL", "params": {"max_gt": "1"}}, "must be a finite number"),
        ({"condition": "TL", "params": {"max_gt": float("inf")}}, "must be a finite number"),
        ({"condition": "TL", "params": {"abs_mean_gt": -1}}, "must be a number of at least 0"),
        (
            {"condition": "TZ", "params": {"zero_percentage_ge": 500}},
            "must be a number from 0 to 100",
        ),
        ({"condition": "TR", "params": {"max_min_lt": 0}}, "must be a number above 0"),
        ({"condition": "WNC", "params": {"equal_nan": 2}}, "must be 0 or 1"),
        (
            {"condition": "TR", "params": {"range_percentage_lt": 5}},
            "range_percentage_lt needs range_start_inclusive or range_end_inclusive as well",
        ),
        (
            {"condition": "TR", "params": {"range_end_inclusive": 5, "max_min_gt": 1}},
            "range_end_inclusive needs range_percentage_lt or range_percentage_gt as well",
        ),
        (
            {
                "condition": "TR",
                "params": {
                    "range_percentage_lt": 5,
                    "range_start_inclusive": 2,
                    "range_end_inclusive": 1,
                },
            },
            "must not be above range_end_inclusive (1)",
        ),
        ({"condition": "TO", "select": 3}, ".select = 3: must be an object"),
        ({"condition": "TO", "select": {"nod": "x"}}, 'unknown key (did you mean "node"?)'),
        ({"condition": "TO", "select": {"node": ""}}, "must be text, not empty"),
        ({"condition": "TO", "select": {"regex": "("}}, "is no regular expression"),
        ({"condition": "TO", "select": {"class": "wieght"}}, "must be"),
        ({"condition": "WO", "select": {"class": "gradient"}}, "WO is about weight"),
        ({"condition": "LN", "select": {"class": "tensor"}}, "LN is about training as a whole"),
        ({"condition": "TO", "id": -1}, "must be a whole number of at least 0"),
        ({"condition": "TO", "id": True}, "must be a whole number"),
        ({"condition": "TO", "name": 3}, "must be a string"),
        ({"condition": "TO", "enabled": 1}, "must be true or false"),
        ({"condition": "TO", "mute": [3]}, "must be a list of node names or source lines"),
    ],
)
def test_what_is_wrong_is_said(data: Any, expected: str) -> None:
    (line,) = problems(data)
    assert expected in line, line


def test_everything_wrong_is_said_at_once() -> None:
    data = {"condition": "TL", "params": {"max_gt": "x", "foo": 1}, "select": {"a": "b"}, "id": "c"}
    assert len(problems(data)) == 4


def test_nan_and_infinite_limits_are_refused() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="must be"):
            make("TL", max_gt=value)

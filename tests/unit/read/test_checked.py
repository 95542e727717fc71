"""Fields of JSON objects: types, ranges, and errors that name the place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from opscope.read.checked import SLOTS, DamagedError, Fields, checked_lines


def fields(**data: Any) -> Fields:
    return Fields(data, "line 12")


def test_the_place_and_the_value_are_named() -> None:
    with pytest.raises(DamagedError) as caught:
        fields(slot=2**63).integer("slot", below=SLOTS)
    assert str(caught.value) == 'line 12: "slot" is 9223372036854775808, must be below 65536'
    with pytest.raises(DamagedError, match=r'^line 12: "name" is missing$'):
        fields().text("name")


@pytest.mark.parametrize("value", [None, True, 1.0, "x", "1.5", [], {}, -1, 2**32, 10**400])
def test_no_integer(value: Any) -> None:
    with pytest.raises(DamagedError, match='"n" is '):
        fields(n=value).integer("n")


def test_integers_beyond_those_of_json_are_text() -> None:
    assert fields(n=str(2**60)).integer("n", below=2**63) == 2**60
    assert fields(n="-7").integer("n", low=-10) == -7


def test_numbers() -> None:
    assert math.isnan(fields(n="NaN").number("n"))
    assert fields(n="-Infinity").number("n") == -math.inf
    assert fields(n=3).number("n") == 3.0
    for value in (None, True, "x", 10**400, [], "9" * 5000):
        with pytest.raises(DamagedError, match="must be a number"):
            fields(n=value).number("n")


def test_what_is_inside_is_checked_too() -> None:
    made = fields(sources=[{"slot": -1}], arguments={"a": 1}, nodes=[1, "x"], shape=[True])
    with pytest.raises(DamagedError, match=r'^line 12: sources: "slot" is -1, must be >= 0$'):
        made.objects("sources")[0].integer("slot")
    for wrong in (
        lambda: made.texts("arguments"),
        lambda: made.integers("nodes"),
        lambda: made.integers("shape"),
        lambda: made.objects("nodes"),
        lambda: made.objects("sources", most=0),
        lambda: made.flag("nodes"),
        lambda: made.mapping("nodes"),
        lambda: made.items("arguments"),
    ):
        with pytest.raises(DamagedError, match="must"):
            wrong()


def test_a_long_value_is_cut_short() -> None:
    with pytest.raises(DamagedError) as caught:
        fields(n="a\x1b" * 10**5).integer("n")
    assert len(str(caught.value)) < 200


def test_damaged_lines_are_left_out_and_said(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.jsonl"
    lines: list[Any] = [{"n": 1}, {"n": "x"}, [], {"n": 4}, *[{}] * 7]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"n": 5')
    assert [*checked_lines(path, lambda line: line.integer("n"))] == [1, 4]
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        f'opscope: {path} line 2: "n" is "x", must be a whole number; left out',
        f"opscope: {path} line 3: is no JSON object; left out",
    ]
    assert said[3] == f"opscope: {path}: 6 more lines are damaged; left out"
    assert len(said) == 4

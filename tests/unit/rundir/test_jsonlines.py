"""JSON lines: portable numbers, whole lines, limits, and readers that cope with damage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from opscope.rundir.jsonlines import JsonLines, LineTail, dumps, encode, encode_plain, read_object


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that may still be written to."""
    return [value for _, value in LineTail(path).numbered()]


def test_numbers_that_json_lacks_are_strings() -> None:
    text = dumps({"a": [math.nan, math.inf, -math.inf, 1.5], "b": (2**53 + 1, -(2**60), 2**53)})
    assert json.loads(text) == {
        "a": ["NaN", "Infinity", "-Infinity", 1.5],
        "b": ["9007199254740993", "-1152921504606846976", 2**53],
    }


def test_plain_values_read_the_same_either_way() -> None:
    value = {"id": 7, "name": "é\udc80\n", "forward": None, "nested": [{"a": ("x", 1, True)}, []]}
    assert encode_plain(value) == encode(value)


def test_an_unfinished_last_line_is_left_out(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.jsonl"
    lines = JsonLines(path)
    lines.append({"n": 1})
    lines.append({"n": 2})
    with open(path, "ab") as file:
        file.write(b'{"n": 3')
    assert [line["n"] for line in read_lines(path)] == [1, 2]
    with open(path, "ab") as file:
        file.write(b"}\n")
    assert [line["n"] for line in read_lines(path)] == [1, 2, 3]
    assert capsys.readouterr().err == ""
    lines.close()


def test_a_damaged_line_is_named_and_left_out(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"n": 1}\n\0\0\0\n[1]\n{"n": 2}\n')
    assert [line["n"] for line in read_lines(path)] == [1, 2]
    said = capsys.readouterr().err
    assert f"{path} line 2: is no JSON object; left out" in said
    assert f"{path} line 3: is no JSON object; left out" in said


def test_a_file_at_its_limit_is_not_continued_and_says_so(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.jsonl"
    lines = JsonLines(path, limit=25)
    assert [lines.append({"n": n}) for n in range(5)] == [True, True, False, False, False]
    assert [line["n"] for line in read_lines(path)] == [0, 1]
    assert capsys.readouterr().err.count("not continued") == 1
    lines.close()


def test_odd_text_survives(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = JsonLines(path)
    texts = ["line\nbreak\r\u2028", "lone \udc80 surrogate", "日本"]
    lines.append({"texts": texts})
    lines.close()
    (line,) = read_lines(path)
    assert line["texts"] == texts


def test_no_file_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none") == []
    assert read_object(tmp_path / "none") is None

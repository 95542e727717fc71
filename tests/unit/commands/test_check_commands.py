"""`hits` and `check`: tables for people, JSON for programs, exit codes, sentences for mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_run import SCRIPT, write_run

from opscope.commands import main

HITS = [
    {
        "step": 2,
        "rank": 0,
        "watchpoint": 1,
        "label": "big",
        "condition": "TL",
        "params": {"max_gt": 1},
        "actual": {"max_gt": 2.0},
        "message": "max is 2, above 1",
        "parameter": "",
        "node": 1,
        "name": "Default/mse_loss-op0",
        "op_type": "mse_loss",
        "phase": "forward",
        "io": "output",
        "slot": 0,
        "call": 1,
        "where": "train.py:1",
    },
    {
        "step": 0,
        "rank": 0,
        "watchpoint": 2,
        "label": "WO",
        "condition": "WO",
        "message": "a weight holds NaN or Inf: 1 NaN",
        "parameter": "fc.weight",
        "node": 0,
        "name": "Default/network-Net/fc-Linear/addmm-op0",
        "io": "input",
        "slot": 1,
        "call": 0,
        "where": "",
    },
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one run of two ranks, the second one without hits."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    for rank in (0, 1):
        write_run(Path("opscope-runs/net-1"), rank, steps=3, world_size=2)
    lines = "".join(json.dumps(hit) + "\n" for hit in HITS)
    Path("opscope-runs/net-1/rank_0/hits.jsonl").write_text(lines)
    return tmp_path


def test_hits(here: Path, capsys: Any) -> None:
    assert main(["hits", "last", "--all"]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["step", "rank", "watchpoint", "value", "line", "what"]
    linear = "Default/network-Net/fc-Linear/addmm-op0"
    assert first.split()[:5] == ["0", "0", "WO", "fc.weight", f"({linear}:input:1)"]
    assert second.split() == [
        *("2", "0", "big", "Default/mse_loss-op0:0", "train.py:1"),
        *("max", "is", "2,", "above", "1"),
    ]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 2),
        (["--rank", "1"], 0),
        (["--step", "2"], 1),
        (["--condition", "wo"], 1),
        (["--condition", "tensor_too_large", "--step", "0"], 0),
    ],
)
def test_hits_that_were_asked_for(here: Path, capsys: Any, options: list[str], count: int) -> None:
    assert main(["hits", "last", "--json", *options]) == 0
    assert len(json.loads(capsys.readouterr().out)) == count


def test_no_hits_are_said(here: Path, capsys: Any) -> None:
    assert main(["hits", "last", "--rank", "1"]) == 0
    assert "no hits in opscope-runs/net-1" in capsys.readouterr().err
    assert main(["hits", "last", "--step", "1"]) == 0
    assert "no hits of that kind" in capsys.readouterr().err


def test_check_finds(here: Path, capsys: Any) -> None:
    assert main(["check", "last", "--watch", "TL max_gt=1 op_type=mse_loss; WCL"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "6 hits in 6 checks: TL max_gt=1 6; 6 values could not be checked"
    assert lines[2].split()[:6] == ["0-2", "3", "0", "TL", "max_gt=1", "Default/mse_loss-op0:0"]
    assert lines[2].endswith("train.py:1  max is 2, above 1")
    assert [line.split()[:3] for line in lines[2:4]] == [["0-2", "3", "0"], ["0-2", "3", "1"]]
    assert len([line for line in lines if line.startswith("  TL max_gt=1: look at")]) == 1
    assert "not checked:" in lines
    assert any("WCL: 2 values: there is no value of an earlier step" in line for line in lines)


def test_check_finds_nothing(here: Path, capsys: Any) -> None:
    assert main(["check", "last", "--watch", "TO", "--rank", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "no hits in 12 checks"


def test_what_could_not_be_checked_is_no_check(here: Path, capsys: Any) -> None:
    assert main(["check", "last", "--watch", "WCL"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert said == "nothing was checked; 6 values could not be checked"


def test_check_as_json(here: Path, capsys: Any) -> None:
    words = ["check", "last", "--watch", "TL max_gt=1; LN; WCL", "--steps", "2", "--json"]
    assert main(words) == 3
    data = json.loads(capsys.readouterr().out)
    assert {hit["condition"] for hit in data["hits"]} == {"TL", "LN"}
    assert data["hits"][0]["actual"] == {"max_gt": 2.0}
    assert {each["condition"] for each in data["unchecked"]} == {"WCL"}
    assert data["notes"] == []
    assert data["values"] == 8 + 2
    assert data["unchecked_values"] == 2


def test_check_by_file(here: Path, capsys: Any) -> None:
    Path("watch.json").write_text(
        json.dumps({"watchpoints": [{"condition": "TL", "params": {"max_gt": 1}, "name": "big"}]})
    )
    assert main(["check", "last", "--watch", "watch.json", "--first", "2"]) == 3
    printed = capsys.readouterr().out
    assert "24 hits in 24 checks: big 24" in printed
    assert "6 more kinds of hits are not shown; --first 0 shows all" in printed
    main(["check", "last", "--watch", "watch.json", "--first", "23", "--all"])
    assert "1 later hit is not shown; --first 0 shows all" in capsys.readouterr().out
    main(["check", "last", "--watch", "watch.json", "--first", "0"])
    assert "not shown" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check", "last", "--watch", "TL"], "TL needs at least one of"),
        (["check", "last", "--watch", "none"], "there is nothing to check"),
        (["check", "last", "--watch", "TO", "--steps", "x"], 'steps = "x"'),
        (["check", "last", "--watch", "TO", "--rank", "9"], "has no rank 9; it has: 0, 1"),
        (["check", "last", "--watch", "TO", "--include", "test"], "some of setup, data, eval"),
        (
            ["check", "nothing", "--watch", "TO"],
            "nothing: no such run; in opscope-runs",
        ),
        (["check", "opscope-runs", "--watch", "TO"], "is neither a run"),
        (["hits", "last", "--condition", "TT"], "TT is no condition"),
        (["hits", "last", "--rank", "4"], "has no rank 4"),
    ],
)
def test_mistakes(here: Path, capsys: Any, words: list[str], expected: str) -> None:
    assert main(words) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("missing", [("stdout",), ("stderr",), ("stdout", "stderr")])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["runs"], 0),
        (["hits", "last"], 0),
        (["check", "last", "--watch", "TL max_gt=-9"], 3),
        (["query", "last", "select * from steps", "--csv"], 0),
        (["hits", "nosuch"], 2),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_streams_that_were_closed_before_python_started(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    missing: tuple[str, ...],
    words: list[str],
    code: int,
) -> None:
    for name in missing:
        monkeypatch.setattr(sys, name, None)
    assert main(words) == code
    if code == 2:
        assert capsys.readouterr().out == "", "what is said does not go to stdout instead"


def test_a_sentence_that_does_not_fit_stands_below_its_row(
    here: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    main(["check", "last", "--watch", "TL max_gt=1 op_type=mse_loss"])
    summary, head, row, told, *_ = capsys.readouterr().out.splitlines()
    assert summary == "6 hits in 6 checks: TL max_gt=1 6"
    assert head.split() == ["steps", "hits", "value", "line"]
    assert row.split() == ["0-2", "3", "Default/mse_loss-op0:0", "train.py:1"]
    assert told == "    max is 2, above 1"

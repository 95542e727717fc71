"""A damaged run: one line says what, and what is sound beside it is still there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_run import write_run

import opscope
from opscope.commands import main
from opscope.read.run import open_run

LINEAR = "Default/network-Net/fc-Linear/addmm-op0"
ESCAPES = "\x1b[31m\nFORGED"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs/net")
    return tmp_path / "runs/net"


def change(path: Path, number: int, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the object on one line of a file."""
    lines = path.read_text().splitlines()
    value = json.loads(lines[number - 1])
    edit(value)
    lines[number - 1] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")


def test_a_slot_beyond_all_measure(run: Path, capsys: Any) -> None:
    nodes = run / "rank_0/nodes.jsonl"
    change(nodes, 2, lambda line: line["sources"][0].update(slot=2**63))
    assert list(open_run(run).rank(0).nodes) == [0, 2, 3]
    place = f'{nodes} line 2: sources: "slot" is 9223372036854775808, must be below 65536'
    assert f"opscope: {place}; left out\n" in capsys.readouterr().err
    assert main(["show", str(run), "addmm-op0"]) == 0
    assert main(["show", str(run), LINEAR]) == 0
    assert main(["check", str(run)]) in (0, 3)
    assert main(["query", str(run), "select name from stats"]) == 0


def test_a_fifo_among_the_files(run: Path, capsys: Any) -> None:
    stacks = run / "rank_0/stacks.jsonl"
    stacks.unlink()
    os.mkfifo(stacks)
    assert main(["show", str(run), LINEAR]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(LINEAR)
    assert printed.err == f"opscope: {stacks} is a FIFO, no regular file; left out\n"


def test_rows_that_are_a_device(run: Path, capsys: Any) -> None:
    (rows,) = (run / "rank_0/stats").glob("*.rows")
    rows.unlink()
    rows.symlink_to("/dev/zero")
    assert main(["show", str(run), LINEAR]) == 0
    printed = capsys.readouterr()
    assert "no numbers" in printed.out
    assert f"{rows} is a symbolic link, no regular file; left out" in printed.err


def test_rows_of_a_kind_there_is_not(run: Path) -> None:
    (rows,) = (run / "rank_0/stats").glob("*.rows")
    data = bytearray(rows.read_bytes())
    data[2], data[128 + 1] = 7, 9
    rows.write_bytes(data)
    before = len(data) // 128
    assert len(open_run(run).rank(0).stats()) == before - 2


def test_a_step_that_is_none(run: Path, capsys: Any) -> None:
    change(run / "rank_0/steps.jsonl", 2, lambda line: line.update(step="second"))
    assert opscope.open(run).steps == [0, 2]
    assert 'steps.jsonl line 2: "step" is "second", must be a whole number' in (
        capsys.readouterr().err
    )


def test_runs_beside_a_damaged_one_are_listed(run: Path, capsys: Any) -> None:
    write_run(run.parent / "other")
    change(run / "rank_0/steps.jsonl", 3, lambda line: line.update(losses=[7]))
    (run / "rank_0/nodes.jsonl").unlink()
    os.mkfifo(run / "rank_0/nodes.jsonl")
    (run.parent / "third").mkdir()
    (run.parent / "third/run.json").write_text("[" * 10**5)
    assert main(["runs", str(run.parent), "--json"]) == 0
    assert {each["name"] for each in json.loads(capsys.readouterr().out)} == {"net", "other"}


def test_a_time_that_is_none_is_shown_as_it_is(run: Path, capsys: Any) -> None:
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "started": f"soon{ESCAPES}"}))
    assert main(["runs", str(run.parent)]) == 0
    assert r"soon\x1b[31m\nFORGED" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["show", "{}", "0"],
        ["show", "{}", "0", "--json"],
        ["show", "{}", "addmm"],
        ["query", "{}", "select name, name as {name} from nodes"],
        ["query", "{}", "select * from nodes", "--csv"],
        ["query", "{}", "select * from nodes", "--json"],
    ],
    ids=" ".join,
)
def test_names_are_shown_escaped(run: Path, capsys: Any, words: list[str]) -> None:
    name = f"addmm{ESCAPES}\x9b\u202e\udcff"
    change(run / "rank_0/nodes.jsonl", 1, lambda line: line.update(name=name))
    change(run / "rank_0/nodes.jsonl", 2, lambda line: line.update(name=f"{name}2"))
    main([word.format(run, name=f'"{ESCAPES}"') for word in words])
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert "FORGED" in text
    assert not any(line.startswith("FORGED") for line in text.split("\n"))
    assert all(character == "\n" or character.isprintable() for character in text)


def test_hits_with_fields_of_other_types(run: Path, capsys: Any) -> None:
    hit = {"step": 1, "rank": 0, "condition": "TO", "label": "TO", "message": ESCAPES, "node": 0}
    wrong = [{"step": []}, {"node": 2**63}, {"actual": {"a": {}}}, {"message": 7}, {"verdict": 3}]
    lines = [json.dumps(hit | each) for each in (*wrong, {})]
    (run / "rank_0/hits.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["hits", str(run), "--all"]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()] == ["step", "1"]
    assert 'hits.jsonl line 1: "step" is a list, must be a whole number' in printed.err
    assert "hits.jsonl: 2 more lines are damaged" in printed.err

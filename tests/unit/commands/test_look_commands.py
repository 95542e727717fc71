"""`runs`, `show` and `query`: text for people, JSON for programs, sentences for mistakes."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from made_files import FC, RELU, MadeFiles
from made_run import SCRIPT, MadeRun, write_run

from opscope.commands import hits, numbers, query, runs, show
from opscope.errors import OpscopeError
from opscope.wording import size


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one run of two ranks."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    for rank in (0, 1):
        write_run(Path("opscope-runs/net-1"), rank, steps=12, world_size=2)
    return tmp_path


def call(module: ModuleType, *argv: str) -> None:
    """Run a command as the command line would."""
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    assert module.run(parser.parse_args(argv)) == 0


@pytest.fixture
def text(capsys: Any) -> Any:
    """Run a command and return what it printed."""

    def run(module: ModuleType, *argv: str) -> str:
        capsys.readouterr()
        call(module, *argv)
        printed: str = capsys.readouterr().out
        return printed

    return run


def test_every_verb_has_help() -> None:
    for module in (runs, show, query):
        assert module.__doc__
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        assert "--json" in parser.format_help()


def test_runs(here: Path, text: Any) -> None:
    live = MadeRun(here / "opscope-runs/net-2").open()
    header, finished, running = text(runs).splitlines()
    columns = "name state steps hits loss age size nodes ranks kind"
    assert header.split() == columns.split()
    assert finished.split()[:5] == ["net-1", "finished", "12", "0", "NaN"]
    assert finished.split()[-3:] == ["4", "2", "run"]
    assert running.split()[:5] == ["net-2", "running", "0", "0", "-"]
    live.writer.close()


def test_runs_as_json(here: Path, text: Any) -> None:
    (summary,) = json.loads(text(runs, "opscope-runs", "--json"))
    assert (summary["name"], summary["state"], summary["steps"]) == ("net-1", "finished", 12)
    assert summary["loss"] == "NaN"
    assert isinstance(summary["size"], int)


def test_runs_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    call(runs)
    assert "there is no run in opscope-runs" in capsys.readouterr().err
    call(runs, "--json")
    assert json.loads(capsys.readouterr().out) == []
    with pytest.raises(OpscopeError, match="there is no such directory"):
        call(runs, "elsewhere")


def test_runs_names_what_it_cannot_read(here: Path, capsys: Any) -> None:
    path = here / "opscope-runs/net-1/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    call(runs, "--json")
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert "has format 99" in printed.err


def test_show(here: Path, text: Any) -> None:
    printed = text(show, "last", "mse_loss-op0")
    assert printed.startswith("Default/mse_loss-op0  (node 1, graph 0, rank 0)\n")
    for line in (
        "  op           aten.mse_loss.default",
        "  phase        forward",
        "  train.py:1 in main",
        "      loss = criterion(model(x), y)",
        "input 0: from Default/network-Net/fc-Linear/addmm-op0:0, float32 [2, 3]",
        "2 earlier steps are not shown; --last 0 shows all",
    ):
        assert line in printed.splitlines()
    assert "/torch/linear.py" not in printed
    table = printed.split("output 0, float32 [2, 3]\n")[1].splitlines()
    assert table[0].split()[:3] == ["step", "min", "max"]
    assert len(table[1:11]) == 10
    assert table[1].split()[0] == "2"
    assert "1101" in table[10].split()


def test_show_says_what_an_input_is(here: Path, text: Any) -> None:
    printed = text(show, "last", "network-Net/fc-Linear/addmm-op0", "--step", "0")
    assert "input 0: parameter fc.weight" in printed
    assert "input 1: batch x\n  no numbers" in printed
    assert "  argument     beta=1" in printed
    assert "output 0: updates fc.weight" in text(show, "last", "foreach", "--step", "0")
    printed = text(show, "last", "Gradients/Default/network-Net/fc-Linear/addmm-op0")
    assert "  forward      Default/network-Net/fc-Linear/addmm-op0" in printed


def test_show_as_json(here: Path, text: Any) -> None:
    view = json.loads(text(show, "net", "1", "--json", "--rank", "1"))
    assert (view["name"], view["rank"]) == ("Default/mse_loss-op0", 1)
    assert view["stack"][1]["code"] == "loss = criterion(model(x), y)"
    (value,) = view["outputs"]
    assert [row["mean"] for row in value["rows"]] == [100 * step + 1 for step in range(12)]
    assert value["rows"][0]["shape"] == [2, 3]
    assert view["inputs"][0]["source"]["slot"] == 0
    assert [row["mean"] for row in view["inputs"][0]["rows"]] == [100 * step for step in range(12)]


def test_show_one_step_and_one_slot(here: Path, text: Any) -> None:
    view = json.loads(text(show, "last", "mse_loss-op0:0", "--step", "3", "--json"))
    assert view["inputs"] == []
    assert [row["step"] for row in view["outputs"][0]["rows"]] == [3]
    view = json.loads(text(show, "last", "mse_loss-op0:input:0", "--last", "2", "--json"))
    assert view["outputs"] == []
    assert [row["step"] for row in view["inputs"][0]["rows"]] == [10, 11]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["last", "mse_loss-op0:5"], "has no output 5; it has: 0"),
        (["last", "mse_loss-op0", "--step", "77"], "in step 77; it has steps 0 to 11"),
        (["last", "mse_loss-op0", "--rank", "5"], "has no rank 5; it has: 0, 1"),
        (["last", "mse_los-op0x"], "did you mean\n  Default/mse_loss-op0"),
        (["last", "qqq"], "no node matches qqq; list them with: opscope nodes"),
        (["nowhere", "x"], "nowhere: no such run; in opscope-runs there are net-1"),
    ],
)
def test_show_explains_mistakes(here: Path, argv: list[str], message: str) -> None:
    with pytest.raises(OpscopeError, match=message):
        call(show, *argv)


def test_query(here: Path, text: Any) -> None:
    pytest.importorskip("duckdb")
    sql = "select step, name, mean from stats where rank = 0 and node = 1 order by step limit 2"
    assert text(query, "last", sql).splitlines() == [
        "step  name                  mean",
        "   0  Default/mse_loss-op0     1",
        "   1  Default/mse_loss-op0   101",
    ]
    assert json.loads(text(query, "last", sql, "--json"))[1] == {
        "step": 1,
        "name": "Default/mse_loss-op0",
        "mean": 101.0,
    }
    table = list(csv.reader(io.StringIO(text(query, "last", sql, "--csv"))))
    assert table == [
        ["step", "name", "mean"],
        *[[str(s), "Default/mse_loss-op0", f"{m}.0"] for s, m in [(0, 1), (1, 101)]],
    ]


def test_query_keeps_odd_numbers_and_equal_names(here: Path, text: Any) -> None:
    pytest.importorskip("duckdb")
    sql = "select 'nan'::double as a, 2::hugeint ** 60 as b, (2::hugeint << 60) as c, 1 as a"
    (line,) = json.loads(text(query, "last", sql, "--json"))
    assert line == {"a_1": "NaN", "b": 2.0**60, "c": str(2**61), "a_2": 1}


def test_query_explains_mistakes(here: Path) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(OpscopeError, match="nope does not exist"):
        call(query, "last", "select * from nope")
    with pytest.raises(OpscopeError, match="no statement"):
        call(query, "last", "")
    with pytest.raises(OpscopeError, match="exclude each other"):
        call(query, "last", "select 1", "--json", "--csv")


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A dump with a saved tensor in step 2 and statistics of another in step 4."""
    made = MadeFiles(tmp_path / "dumps/net")
    made.save(2, FC, np.array([1.0, 3.0], np.float32))
    made.save(2, FC, np.zeros(2), io="input")
    made.statistic(4, [(RELU, [1.0, 2.0])], ["max"])
    return str(tmp_path / "dumps/net")


def test_show_of_a_dump(dump: str, text: Any) -> None:
    printed = text(show, dump, FC)
    assert printed.startswith(f"{FC}  (node ")
    assert "input 0, float64\n" in printed and "output 0, float32\n" in printed
    (value,) = json.loads(text(show, dump, f"{FC}:0", "--json"))["outputs"]
    assert [(r["step"], r["min"], r["max"], r["mean"]) for r in value["rows"]] == [(2, 1, 3, 2)]
    (value,) = json.loads(text(show, dump, f"{RELU}:0", "--json"))["outputs"]
    assert [(r["step"], r["max"], r["l2"]) for r in value["rows"]] == [(4, 2, "NaN")]
    with pytest.raises(OpscopeError, match="a dump has no hits of its own"):
        call(show, dump, "hits")


def test_hits_of_a_dump(dump: str, capsys: Any) -> None:
    call(hits, dump)
    assert "a dump has no hits of its own; opscope check finds them" in capsys.readouterr().err
    call(hits, dump, "--json")
    assert json.loads(capsys.readouterr().out) == []


def test_runs_lists_dumps(dump: str, here: Path, text: Any) -> None:
    (summary,) = json.loads(text(runs, str(Path(dump).parent), "--json"))
    assert (summary["name"], summary["kind"], summary["steps"]) == ("net", "dump", 2)
    (summary,) = json.loads(text(runs, dump, "--json"))
    assert summary["kind"] == "dump"
    assert len(text(runs, dump).splitlines()) == 2
    (summary,) = json.loads(text(runs, "opscope-runs/net-1", "--json"))
    assert (summary["name"], summary["kind"]) == ("net-1", "run")


def test_query_of_a_dump(dump: str, text: Any) -> None:
    pytest.importorskip("duckdb")
    assert json.loads(text(query, dump, "select step, max, l2 from stats", "--json")) == [
        {"step": 4, "max": 2.0, "l2": None}
    ]


def test_an_answer_is_printed_as_it_comes(here: Path, text: Any) -> None:
    pytest.importorskip("duckdb")
    sql = "select i, 'x' || i as name from range(5000) t(i)"
    assert [line["i"] for line in json.loads(text(query, "last", sql, "--json"))] == [*range(5000)]
    assert json.loads(text(query, "last", "select 1 where false", "--json")) == []
    assert text(query, "last", sql, "--csv").splitlines()[-1] == "4999,x4999"
    table = text(query, "last", sql).splitlines()
    assert (table[0].split(), table[-1].split()) == (["i", "name"], ["4999", "x4999"])
    assert len(table) == 5001


def test_show_tells_what_lies_between_the_steps_that_were_kept(tmp_path: Path, text: Any) -> None:
    made = MadeRun(tmp_path / "run", budget=1 << 16).open()
    for step in range(500):
        made.step(step)
    made.writer.close()
    view = json.loads(text(show, str(tmp_path / "run"), "mse_loss-op0", "--json"))
    (value,) = view["outputs"]
    gaps = value["between"]
    assert len(value["rows"]) + sum(gap["rows"] for gap in gaps) == 500
    assert gaps[0]["first"] == value["rows"][0]["step"] + 1
    printed = text(show, str(tmp_path / "run"), "mse_loss-op0", "--last", "0").splitlines()
    first = gaps[0]["first"]
    last = max(g["last"] for g in gaps if g["first"] == first)
    assert any(line.split()[:1] == [f"{first}-{last}"] for line in printed)


def test_numbers_for_people() -> None:
    assert numbers.number(1 / 3) == "0.333333"
    assert numbers.number(float("-inf")) == "-Inf"
    assert numbers.cell([1.0, None]) == "[1, -]"
    assert [size(n) for n in (0, 1023, 1024, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "3 MiB",
        "5 TiB",
    ]

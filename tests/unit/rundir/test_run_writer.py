"""The sink: what ends up in the directory, and what happens when the disk does not play along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_run import SCRIPT, MadeRun, write_run

from opscope.calls import Calls
from opscope.events import Frame, Output, Stack, StepRecord, Want
from opscope.rundir.layout import copied_source
from opscope.stats.record import ROW_BYTES


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, strictly."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_run_json_describes_the_run_and_its_rows(tmp_path: Path) -> None:
    write_run(tmp_path / "run", world_size=2)
    info = json.loads((tmp_path / "run/run.json").read_text())
    assert info["format"] == 2
    assert info["command"] == ["train.py", "--x"]
    assert (info["script"], info["world_size"]) == ("train.py", 2)
    assert info["cwd"] == os.getcwd()  # noqa: PTH109
    assert info["row"]["bytes"] == ROW_BYTES
    assert info["row"]["fields"]["mean"] == ["<f8", 48]
    assert info["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert info["started"].endswith("+00:00")


def test_nodes_are_written_once_with_all_they_are(tmp_path: Path) -> None:
    write_run(tmp_path)
    nodes = lines(tmp_path / "rank_0/nodes.jsonl")
    assert [node["id"] for node in nodes] == [0, 1, 2, 3]
    assert nodes[0] == {
        "id": 0,
        "graph": 0,
        "name": "Default/network-Net/fc-Linear/addmm-op0",
        "op_type": "addmm",
        "op": "aten.addmm.default",
        "scope": "Default/network-Net/fc-Linear",
        "module_class": "Linear",
        "phase": "forward",
        "stack": 0,
        "forward": None,
        "parameter": "",
        "gradient_of": "",
        "with_grad": True,
        "arguments": {"beta": "1", "alpha": "1"},
        "sources": [
            {"kind": "parameter", "name": "fc.weight", "subject": "fc.weight"},
            {"kind": "batch", "name": "x", "subject": ""},
        ],
        "outputs": [],
    }
    assert nodes[2]["forward"] == 0
    assert nodes[1]["sources"] == [{"node": 0, "slot": 0}]


def test_edges_are_written_when_they_change(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    made.step(0)
    made.step(1)
    before = lines(tmp_path / "rank_0/edges.jsonl")
    assert [line["node"] for line in before] == [3]
    assert before[0]["outputs"] == [{"slot": 0, "parameter": "fc.weight", "subject": "fc.weight"}]
    made.loss.sources = [Output(made.linear, 1)]
    made.step(2)
    made.step(3)
    made.writer.close()
    (change,) = lines(tmp_path / "rank_0/edges.jsonl")[1:]
    assert change == {"node": 1, "variants": [[{"node": 0, "slot": 1}]], "outputs": []}
    links = lines(tmp_path / "rank_0/links.jsonl")
    assert links == [{"step": 2, "changes": [1, 1, 0, 1], "crossings": []}]


def test_orders_are_written_once_and_steps_refer_to_them(tmp_path: Path) -> None:
    made = write_run(tmp_path / "a", steps=4)
    steps = lines(tmp_path / "a/rank_0/steps.jsonl")
    assert [step["orders"] for step in steps] == [[[0, 0, 1]]] * 4
    assert lines(tmp_path / "a/rank_0/orders.jsonl") == [{"id": 0, "nodes": [0, 1, 2, 3]}]
    assert steps[1]["losses"] == [{"value": 0.5, "node": 1, "call": 1}]
    assert steps[3]["losses"] == [{"value": "NaN", "node": 1, "call": 1}]

    other = MadeRun(tmp_path / "b").open()
    other.step(0)
    calls = Calls(made.nodes[:2] * 3 + made.nodes[:1])
    calls.passes[:] = [2, 1, 4, 2, 6, 3]
    record = StepRecord(1, calls, [], 0.1, skipped=True, complete=False)
    other.writer.step_end(record)
    other.step(2)
    other.writer.close()
    steps = lines(tmp_path / "b/rank_0/steps.jsonl")
    assert [step["orders"] for step in steps] == [
        [[0, 0, 1]],
        [[1, 0, 3], [2, 3, 1]],
        [[0, 0, 1]],
    ]
    assert (steps[1]["operators"], steps[1]["passes"]) == (7, 4)
    assert (steps[1]["skipped"], steps[1]["complete"]) == (True, False)


def test_the_users_sources_are_copied_and_others_are_not(tmp_path: Path) -> None:
    sources = [
        tmp_path / "a/net.py",
        tmp_path / "b/net.py",
        tmp_path / "big.py",
        tmp_path / "lib.py",
    ]
    for number, path in enumerate(sources):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{SCRIPT}# {number}\n" * (100_000 if path.name == "big.py" else 1))
    made = MadeRun(tmp_path / "run").open()
    frames = [Frame(str(path), 1, "f", path.name != "lib.py") for path in sources]
    made.linear.stack = Stack(5, (*frames, Frame("<string>", 1, "f", True)))
    made.step(0)
    made.writer.close()
    assert "# 0" in copied_source(tmp_path / "run", str(sources[0])).read_text()
    assert "# 1" in copied_source(tmp_path / "run", str(sources[1])).read_text()
    assert len(list((tmp_path / "run/sources").iterdir())) == 2


def test_it_wants_outputs_and_what_comes_from_outside(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    assert made.writer.wants(made.linear) == Want.OUTPUT_STATS | Want.OUTSIDE_STATS
    assert made.writer.wants_step(0)
    made.writer.close()
    assert made.writer.wants(made.linear) == Want.NOTHING
    assert not made.writer.wants_step(1)
    made.step(0)


def test_the_end_is_on_record(tmp_path: Path) -> None:
    write_run(tmp_path, steps=2)
    end = json.loads((tmp_path / "rank_0/end.json").read_text())
    assert (end["steps"], end["rows"], end["thinned_rows"], end["dropped_rows"]) == (2, 12, 0, 0)
    assert (end["state"], end["reason"], end["message"], end["step"]) == ("finished", "", "", None)
    names = {path.name for path in (tmp_path / "rank_0").iterdir()}
    assert not [name for name in names if name.startswith(".")]
    assert "incomplete.json" not in names


def test_two_ranks_share_a_directory(tmp_path: Path) -> None:
    first, second = (
        MadeRun(tmp_path, 0, world_size=2).open(),
        MadeRun(tmp_path, 1, world_size=2).open(),
    )
    first.step(0)
    second.step(0)
    first.writer.close()
    second.writer.close()
    assert (
        len(lines(tmp_path / "rank_0/steps.jsonl"))
        == len(lines(tmp_path / "rank_1/steps.jsonl"))
        == 1
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rank_0",
        "rank_1",
        "run.json",
        "sources",
    ]


def test_a_second_run_never_mixes_with_the_first(tmp_path: Path, capsys: Any) -> None:
    write_run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = MadeRun(tmp_path).open()
    again.step(0)
    again.writer.close()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert again.writer.wants(again.linear) == Want.NOTHING
    assert "training goes on" in capsys.readouterr().err


def test_a_directory_that_cannot_be_made_is_said_once(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    made = MadeRun(tmp_path / "file/run").open()
    made.step(0)
    made.writer.close()
    said = capsys.readouterr().err
    assert said.count("cannot write the run") == 1
    assert str(tmp_path / "file/run") in said


def test_a_forked_child_does_not_write(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    made.step(0)
    child = os.fork()
    if child == 0:
        made.step(1)
        made.writer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not (tmp_path / "rank_0/end.json").exists()
    made.step(1)
    made.writer.close()
    assert [step["step"] for step in lines(tmp_path / "rank_0/steps.jsonl")] == [0, 1]
    assert json.loads((tmp_path / "rank_0/end.json").read_text())["rows"] == 12


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from made_run import MadeRun
made = MadeRun(Path(sys.argv[1]), budget=1 << 20).open()
made.step(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
for step in range(1, 3000):
    made.step(step)
print(made.writer.wants(made.linear) == 0, made.writer.wants_step(3000))
made.writer.close()
print("trained")
"""


@pytest.mark.parametrize("limit", [0, 3000, 100_000])
def test_a_full_disk_stops_the_recording_and_not_the_training(tmp_path: Path, limit: int) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(Path(__file__).parent), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "True False\ntrained\n"
    assert result.stderr.count("opscope:") == 1
    assert "File too large; nothing more is recorded there, training goes on" in result.stderr
    from opscope.read.run import open_run

    rank = open_run(tmp_path).rank(0)
    if limit:  # else not even that can be written
        assert rank.state.kind == "finished" and rank.state.incomplete == "File too large"
        last = rank.steps[-1].step
        assert rank.state.recorded_until == last or rank.state.recorded_until == last - 1
    assert rank.steps[0].step == 0
    assert rank.stats(steps={0})["mean"].tolist() == [0, 0, 1, 2, -3, 3]

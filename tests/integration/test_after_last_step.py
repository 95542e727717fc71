"""What runs after the last step: recorded, but neither counted nor dumped as a step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.forked import forked_opscope as opscope
from opscope.read.run import open_run

TRAINING = """
import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 2)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item(), (loss.detach() * 2).sinh())
"""
BY_HAND = """
import torch
from torch import nn

model = nn.Linear(2, 1)
for _ in range(3):
    loss = model(torch.ones(4, 2)).square().mean()
    loss.backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
        parameter.grad = None
    print(loss.item())
"""
EVALUATION = """
with torch.no_grad():
    print(model.eval()(torch.ones(4, 2)).mean().item())
print(loss.item())
"""
FAILURE = """
torch.ones(2, 3).sinh() @ torch.ones(2, 3)
"""
CONFIG = """
{"common_dump_settings": {"op_debug_mode": 0, "dump_mode": 0, "path": "%s", "net_name": "Net",
 "iteration": "all", "saved_data": "%s", "input_output": 0, "kernels": []},
 "e2e_dump_settings": {"enable": true, "trans_flag": true}}
"""


def run(folder: Path, script: str, *options: str, saved: str = "full", code: int = 0) -> None:
    (folder / "train.py").write_text(script)
    (folder / "dump.json").write_text(CONFIG % (folder / "dump", saved))
    arguments = ["--dump", "dump.json", "--run-dir", "runs/one", *options]
    done = opscope("run", *arguments, "train.py", cwd=folder)
    assert done.returncode == code, done.stderr


def counted(folder: Path) -> int:
    """The steps that `opscope runs` shows."""
    listed = opscope("runs", "runs", "--json", cwd=folder)
    steps: int = json.loads(listed.stdout)[0]["steps"]
    return steps


def dumped(folder: Path, graph: int = 0) -> set[str]:
    """The iterations that a dump has of a graph."""
    net = folder / "dump" / "rank_0" / "Net" / str(graph)
    return {path.name for path in net.iterdir()} - {"constants"}


def listed(folder: Path) -> list[int]:
    """The iterations in the manifest of a dump."""
    manifest = folder / "dump" / "rank_0" / ".dump_metadata" / "manifest.json"
    return [each["iteration"] for each in json.loads(manifest.read_text())["iterations"]]


@pytest.mark.parametrize("saved", ["full", "statistic"])
@pytest.mark.parametrize("script", [TRAINING, BY_HAND], ids=["optimizer", "by_hand"])
def test_printing_a_loss_makes_no_step(tmp_path: Path, script: str, saved: str) -> None:
    run(tmp_path, script, saved=saved)
    assert counted(tmp_path) == 3
    assert dumped(tmp_path) == {"0", "1", "2"}
    assert listed(tmp_path) == [0, 1, 2]


def test_what_ran_then_is_recorded_all_the_same(tmp_path: Path) -> None:
    run(tmp_path, TRAINING)
    rank = open_run(tmp_path / "runs" / "one").ranks[0]
    assert [(step.step, step.complete) for step in rank.steps] == [
        *((0, True), (1, True), (2, True), (3, False))
    ]
    printed = [node.id for node in rank.nodes.values() if node.op_type == "sinh"]
    assert 3 in rank.stats(nodes=printed)["step"]


def test_an_evaluation_at_the_end_is_dumped_if_asked_for(tmp_path: Path) -> None:
    run(tmp_path, TRAINING + EVALUATION)
    assert counted(tmp_path) == 3
    assert dumped(tmp_path) == {"0", "1", "2"}
    asked = tmp_path / "asked"
    asked.mkdir()
    run(asked, TRAINING + EVALUATION, "--include", "eval")
    assert counted(asked) == 3
    assert dumped(asked, graph=1) == {"3"}


def test_operators_before_one_that_raises_stay_in_the_dump(tmp_path: Path) -> None:
    run(tmp_path, TRAINING + FAILURE, code=1)
    assert counted(tmp_path) == 3
    assert dumped(tmp_path) == {"0", "1", "2", "3"}


def test_looking_at_what_a_failed_script_held_is_nobodys_operator(tmp_path: Path) -> None:
    held = "root = (-torch.ones(3)).sqrt()\n"
    run(tmp_path, TRAINING + held + 'raise ValueError("bad")', code=1)
    run_path = tmp_path / "runs" / "one"
    nodes = open_run(run_path).ranks[0].nodes.values()
    assert "sqrt" in {node.op_type for node in nodes}
    last = open_run(run_path).ranks[0].steps[-1]
    assert [node.op_type for node in last.calls.nodes[-3:]] == ["ones", "neg", "sqrt"]
    notes = (run_path / "rank_0" / "notes.jsonl").read_text().splitlines()
    assert [json.loads(note)["op_type"] for note in notes] == ["sqrt"]
    recorded = json.loads((run_path / "recorder/rank_0/rdr/report.json").read_text())
    assert recorded["exception"]["frames"][-1]["tensors"]["root"]["nan"] == 3

"""Other observers of the same training: torch's profiler sees the operators it sees without us."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.program import opscope, python

SCRIPT = """
import json
import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters())

def step():
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

losses = [step() for _ in range(3)]
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as profiled:
    losses += [step() for _ in range(2)]
seen = sorted((each.key, each.count) for each in profiled.key_averages())
observer = ExecutionTraceObserver().register_callback("trace.json")
observer.start()
losses += [step()]
observer.stop()
observer.unregister_callback()
losses += [step()]
with open("trace.json") as file:
    nodes = json.load(file)["nodes"]
print(json.dumps({
    "losses": losses,
    "operators": [each for each in seen if each[0].startswith("aten::")],
    "modules": [each for each in seen if each[0].startswith("nn.Module")],
    "outputs": sorted((each["name"], str(each["outputs"]["shapes"])) for each in nodes),
}))
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(SCRIPT)
    done = python("train.py", cwd=folder)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert found["operators"] and found["outputs"]
    return found


@pytest.mark.parametrize("options", [[], ["--no-stats"]], ids=["statistics", "recorder"])
def test_a_profiler_sees_what_it_sees_without_us(
    tmp_path: Path, expected: dict[str, object], options: list[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = opscope("run", *options, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected

"""What a training on a GPU can die of: the report says so, and how far the GPU had got."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.program import opscope
from helpers.recordings import recording, written_report

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TRAIN = """
import sys
import torch
from torch import nn

how = sys.argv[1]
net = nn.Sequential(nn.Embedding(10, 16), nn.Flatten(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(5):
    tokens = torch.randint(0, 10, (8, 4), device="cuda")
    if step == 3 and how == "assert":
        tokens = tokens + 1000
    loss = nn.functional.cross_entropy(net(tokens), torch.randint(0, 10, (8,), device="cuda"))
    if step == 3 and how == "memory":
        torch.empty(1 << 45, device="cuda")
    if step == 3 and how == "address":
        kernel = torch.cuda._compile_kernel(
            'extern "C" __global__ void wrong(float* p) { p[1ull << 40] = 1.0f; }', "wrong"
        )
        kernel((1, 1, 1), (1, 1, 1), (torch.zeros(1, device="cuda"),))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print("done")
"""
EXPECTED = {"assert": "device error", "memory": "out of memory", "address": "device error"}


@pytest.mark.parametrize("how", EXPECTED)
def test_it_is_told(tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"OPSCOPE_RECORD_PATH": str(tmp_path)}
    done = opscope("run", "--no-stats", "train.py", how, cwd=tmp_path, timeout=300, **environ)
    assert done.returncode not in (0, 2), done.stderr
    report = written_report(recording(tmp_path))
    assert report["cause"] == EXPECTED[how], report["cause_text"]
    assert 3 <= report["step"] <= 5  # the host is ahead of the device
    window = report["device_window"]
    assert 0 < window["completed"] <= window["launched"]
    names = {path.name for path in recording(tmp_path).iterdir()}
    assert {"exception.txt", "graph_0.ir", "mem_address_list.txt", "stacks.txt"} <= names
    if how == "memory":
        assert report["last_op"]["op_type"] == "empty"
        assert "cuda_memory.json" in names
        assert report["steps"][2]["allocated"] > 0


def test_training_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"OPSCOPE_RECORD_PATH": str(tmp_path)}
    done = opscope("run", "--no-stats", "train.py", "well", cwd=tmp_path, timeout=300, **environ)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]

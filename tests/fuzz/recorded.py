"""What is damaged: a run, dumps of every kind and a recording, made by the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers.forked import forked_opscope
from opscope.judge.watch_set import load

WATCH, DUMP = "watch.json", "dump.json"

SETTINGS, RECORDING = "settings", "recording"
KINDS: dict[str, dict[str, Any] | None] = {
    "run": None,
    "npy": {"saved_data": "full", "save_kernel_args": True},
    "bin": {"saved_data": "full", "file_format": "bin"},
    "statistic": {"saved_data": "statistic"},
    SETTINGS: None,
    RECORDING: None,
}
"""What is damaged: a run, a dump with these options, files of settings, or a recording."""

_SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for step in range(3):
    x = torch.randn(2, 4)
    x = torch.where(x > -99, x, (-1 - x.abs()).sqrt())  # a NaN that is masked, so a note
    optimizer.zero_grad()
    for _ in range(2):
        loss = net(x).square().mean()
        loss.backward()
    if step == 2:
        net.first.weight.grad.log_()  # not of positive numbers only, so a hit
    optimizer.step()
"""
_DIES = (
    _SCRIPT
    + """
raise ValueError("bad")
"""
)


def record(kind: str, folder: Path) -> Path:
    """Train under opscope; returns the run or dump, or where settings are: `folder/recorded`."""
    (folder / "train.py").write_text(_DIES if kind == RECORDING else _SCRIPT)
    path = folder / "recorded"
    if kind == SETTINGS:
        return _settings(path)
    if kind == RECORDING:
        words: list[str | Path] = ["run", "--no-stats", "train.py"]
    elif KINDS[kind] is None:
        words = ["run", "--run-dir", path, "train.py"]
    else:
        (folder / "dump.json").write_text(json.dumps(_config(path, KINDS[kind] or {})))
        words = ["run", "--dump", "dump.json", "train.py"]
    environ = {"MS_RDR_PATH": str(path)} if kind == RECORDING else {}
    done = forked_opscope(*words, cwd=folder, **environ)
    assert path.is_dir(), done.stderr
    return path


def _settings(path: Path) -> Path:
    """A file for each option that takes one, and a project's own."""
    path.mkdir()
    load("recommended; TL max_gt=10 scope=*/conv1-*").save(path / WATCH)
    config = _config(path / "dump", {"saved_data": "full", "save_kernel_args": True})
    (path / DUMP).write_text(json.dumps(config, indent=1))
    (path / "opscope.toml").write_text('every = 2\nsteps = "0|5-8"\nwatch = "TO; WO"\n')
    return path


def _config(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    of_e2e = {name: value for name, value in options.items() if name == "save_kernel_args"}
    common = {name: value for name, value in options.items() if name not in of_e2e}
    return {
        "common_dump_settings": {"path": str(path), "iteration": "0|2", **common},
        "e2e_dump_settings": {"enable": True, **of_e2e},
    }

"""Trainings that the page is looked at with: what they do, and what they write."""

from __future__ import annotations

import time
from pathlib import Path

from helpers.dumps import write_dump_config
from helpers.forked import Started, forked_opscope, launched
from opscope.rundir.layout import run_key

RUNS = ("bad", "dump", "pair", "grown")
LAST = 9
"""The step in which the training turns NaN."""
LOSSES = '''"""Losses, written by hand."""


def nll(chances):
    picked = chances[:, 0]
    return -picked.log().mean()
'''
TRAIN = f'''"""A classifier that goes wrong in step {LAST}."""

import torch
from losses import nll
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.out(x), -1)


network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Head())
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
for step in range({LAST + 3}):
    chances = network(torch.randn(16, 8))
    if step == {LAST}:
        chances = chances * (chances > 0.9999)
    loss = nll(chances)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
HOSTILE_CLASS = "<img src=x onerror=document.title='owned'>"
HOSTILE_NAME = "a\"b'<script>alert(1)</script>&amp;😀"
SLOW = f'''"""Trains until a file appears, slowly; its modules have odd names."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
Odd = type({HOSTILE_CLASS!r}, (nn.Linear,), {{}})
network = nn.Sequential()
network.add_module({HOSTILE_NAME!r}, Odd(4, 4))
network.add_module("x" * 10_000, nn.Linear(4, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(3000):
    loss = network(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
    if Path(sys.argv[1]).exists():
        break
'''
PAIR = '''"""Two processes; the second divides by zero in step 2."""

import os

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(4):
    loss = network(torch.randn(8, 4)).square().mean()
    if os.environ["RANK"] == "1" and step == 2:
        loss = loss / torch.zeros(())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
GROWN = '''"""A training whose rate is far too high; in step 1 it masks NaN."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=30.0)
for step in range(60):
    loss = network(torch.randn(64, 4)).square().mean()
    if step == 1:
        torch.nan_to_num(torch.log(-torch.ones(3)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''


def make_runs(folder: Path) -> None:
    """One that turns NaN with its dump, one of two ranks, and one that diverges."""
    scripts = {"losses": LOSSES, "train": TRAIN, "pair": PAIR, "grown": GROWN}
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
    words = ["--run-dir", folder / "bad", "--dump", write_dump_config(folder), "--write-run"]
    words += ["--extra-stats", "kurtosis"]
    done = forked_opscope("run", *words, folder / "train.py", cwd=folder)
    assert done.returncode == 3, done.stderr
    pair = launched("run", "--run-dir", folder / "pair", folder / "pair.py", cwd=folder)
    assert pair.returncode != 0, pair.stderr
    words = ["--run-dir", folder / "grown", folder / "grown.py"]
    grown = forked_opscope("run", *words, cwd=folder)
    assert grown.returncode == 3, grown.stderr


class Slow:
    """A training that goes on until it is ended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "slow"
        self.run = run_key(self.path)
        self._end = folder / "end"
        (folder / "slow.py").write_text(SLOW)
        words = ["run", "--run-dir", self.path, folder / "slow.py", self._end]
        self.process = Started("-m", "opscope", *words, cwd=folder, log=folder / "slow.log")
        self._wait_for(self.path / "run.json")

    def end(self) -> None:
        """Let it finish."""
        self._end.touch()
        assert self.process.wait(60) == 0

    def _wait_for(self, path: Path) -> None:
        end = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.1)

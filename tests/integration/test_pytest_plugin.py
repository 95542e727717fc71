"""The fixtures of the pytest plug-in, in a run of pytest of their own."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.forked import forked_python as python

TESTS = """
import pytest, torch
from torch import nn

class Net(nn.Module):
    def __init__(self, log=False):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.unused = nn.Linear(2, 2)
        self.log = log
    def forward(self, x):
        out = self.fc(x)
        return (out * 0).log() if self.log else out

def train(net, steps=3, noise=0.0):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = net(torch.randn(2, 4)).sum() + (noise if step == 1 else 0) * net.fc.weight.sum()
        loss.backward()
        optimizer.step()

def test_finite(assert_finite):
    with assert_finite():
        train(Net())

def test_not_finite(assert_finite):
    with assert_finite():
        train(Net(log=True))

def test_change(assert_params_change):
    net = Net()
    with assert_params_change(net, but=["unused.*"]):
        train(net)

def test_no_change(assert_params_change):
    net = Net()
    with assert_params_change(net):
        train(net)

def test_match(assert_runs_match):
    assert_runs_match(lambda: train(Net()))

def test_no_match(assert_runs_match):
    assert_runs_match(lambda: train(Net()), lambda: train(Net(), noise=0.5))

def test_other_lengths(assert_runs_match):
    assert_runs_match(lambda: train(Net()), lambda: train(Net(), steps=2))

def test_nothing(assert_runs_match):
    assert_runs_match(lambda: None)
"""


def test_what_fails_and_what_passes(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    options = ("-p", "opscope.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA")
    done = python("-m", "pytest", *options, "test_mine.py", cwd=tmp_path)
    found = {
        name: result
        for result, name in re.findall(r"^(PASSED|FAILED) \S+::(\w+)", done.stdout, re.M)
    }
    assert found == {
        "test_finite": "PASSED",
        "test_not_finite": "FAILED",
        "test_change": "PASSED",
        "test_no_change": "FAILED",
        "test_match": "PASSED",
        "test_no_match": "FAILED",
        "test_other_lengths": "FAILED",
        "test_nothing": "FAILED",
    }, done.stdout
    assert "Inf in step 0: " in done.stdout
    assert "operator  Default/network-Net/log-op0" in done.stdout
    assert re.search(r"code      \S*test_mine.py:13", done.stdout)
    assert "2 of 4 parameters have not changed: ['unused.weight', 'unused.bias']" in done.stdout
    assert "the runs differ from step 1 on" in done.stdout
    assert "only the first run goes on" in done.stdout
    assert "there is nothing to compare" in done.stdout
    assert not (tmp_path / "opscope-runs").exists()

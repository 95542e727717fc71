"""What is kept for somebody who looks is never overwritten, with memory reuse on or off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from live.conftest import Process, Server, typed, wait_for

TRAIN = """
import sys
from pathlib import Path

import numpy
import torch
from torch import nn

import opscope

opscope.set_context(enable_mem_reuse=sys.argv[1] == "on")
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
network = torch.compile(body) if sys.argv[2] == "compiled" else body
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for step in range(1000):
    doubled = network(torch.randn(4, 8)) * 2
    numpy.save(f"step_{step}.npy", doubled.detach().numpy().copy())
    doubled.relu_()  # writes where the product was
    optimizer.zero_grad()
    doubled.square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("reuse", "how"),
    [
        ("off", "eager"),
        *(pytest.param(each, "compiled", marks=pytest.mark.long) for each in ("on", "off")),
    ],
)
def test_kept_values_stay_as_they_were(
    reuse: str,
    how: str,
    tmp_path: Path,
    server: Server,
    started: list[Process],
    run_of: Callable[[Process], str],
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    address = f"127.0.0.1:{server.debugger_port}"
    words = ("run", "--server", address, "--wait", "--keep", "all", "train.py", reuse, how)
    process = Process(tmp_path, *words)
    started.append(process)
    run = run_of(process)
    environ = {"OPSCOPE_SERVER": f"127.0.0.1:{server.port}"}

    def control(*typed_words: str) -> str:
        code, text = typed(tmp_path, "ctl", run, *typed_words, **environ)
        assert code == 0, text
        return text

    control("step", "3")
    wait_for(lambda: "step 2 has ended" in control("status"), 100)
    for step, option in ((2, ()), (1, ("--previous",))):
        file = tmp_path / f"kept_{step}.npy"
        control("value", "Default/mul-op0", *option, "--save", str(file))
        true = np.load(tmp_path / f"step_{step}.npy")
        assert (true < 0).any(), "or relu_ would change nothing"
        np.testing.assert_array_equal(np.load(file), true)
    control("terminate")
    assert process.wait() == 130

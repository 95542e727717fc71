"""Scripts whose handlers of signals raise: what they raise reaches the script, wherever it came."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.program import opscope
from opscope.read.run import open_run

SCRIPT = """
import signal, time
import torch
from torch import nn

class TimeIsUp(Exception):
    pass

def raises(number, frame):
    raise TimeIsUp

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)

def step():
    loss = model(torch.randn(4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for _ in range(3):
    step()  # torch loads a part of itself in the first, and may swallow what is raised there
signal.signal(signal.SIGALRM, raises)
assert signal.getsignal(signal.SIGALRM) is raises
heard = 0
for turn in range(60):
    until = time.monotonic() + 5
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.00037 * turn)
        while time.monotonic() < until:
            step()
    except TimeIsUp:
        heard += 1
        torch.set_grad_enabled(True)  # an optimizer that is left at the wrong moment leaves it off
for _ in range(3):
    step()
print(heard)
"""


@pytest.mark.parametrize("options", [[], ["--no-stats"]], ids=["statistics", "recorder"])
def test_every_time_out_is_heard(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = opscope("run", *options, "--run-dir", "run", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 59  # torch itself may swallow one, between the calls of its own
    assert "internal error" not in done.stderr and "cannot" not in done.stderr
    if not options:
        assert len(open_run(tmp_path / "run").ranks[0].steps) > 60

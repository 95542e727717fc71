"""A step of many passes needs no more memory than one of a single pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.program import opscope
from helpers.twice import hook_is_there

SCRIPT = """
import torch
from torch import nn

class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(1, 51)
        self.head = nn.Linear(51, 1)

    def forward(self, x):
        h = c = x.new_zeros(len(x), 51)
        outputs = []
        for part in x.split(1, dim=1):
            h, c = self.cell(part, (h, c))
            outputs.append(self.head(h))
        return torch.cat(outputs, 1)

def used():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("RssAnon"))

x, y = torch.randn(2, 97, 100, dtype=torch.double)
model = Sequence().double()
"""
CLOSURES = """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=12, max_eval=12)

def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    print(used(), flush=True)
    return loss

optimizer.step(closure)
"""
ONE_LONG_PASS = """


class Rollout(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, x):
        with torch.no_grad():
            for _ in range(12):
                model(x)
                print(used(), flush=True)
        return self.model(x)

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
nn.functional.mse_loss(Rollout()(x), y).backward()
optimizer.step()
"""


@pytest.mark.long
@pytest.mark.skipif(not hook_is_there(), reason="it is the native hook that pins addresses")
@pytest.mark.parametrize(
    "rest",
    [CLOSURES, pytest.param(ONE_LONG_PASS, marks=pytest.mark.long)],
    ids=["closures", "one long pass"],
)
def test_what_is_gone_is_not_held(tmp_path: Path, rest: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + rest)
    done = opscope("run", "--no-page", "--run-dir", "out", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    used = [int(line) for line in done.stdout.split()]
    assert len(used) == 12
    assert used[-1] - used[2] < 60, used

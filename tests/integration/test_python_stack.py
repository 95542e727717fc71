"""Deep calls, which need more memory for frames, are no dearer under opscope than others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.program import opscope, python
from opscope.native.build import switched_off

CALLS = 200
SCRIPT = f"""
import json
import resource
import torch
from torch import nn

faults = lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

def called({", ".join(f"a{i}=0" for i in range(40))}):  # it needs more than the one that calls it
    return a0

def at(depth):
    if depth:
        return at(depth - 1)
    before = faults()
    for _ in range({CALLS}):
        called()
    return faults() - before

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 1)
        self.most = 0

    def forward(self, x):
        self.most = max(self.most, *(at(depth) for depth in range(300)))
        return self.inner(x)

model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model.most = 0
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
print(json.dumps(model.most))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.mark.skipif(switched_off(), reason="is done natively")
@pytest.mark.parametrize("options", [[], ["--no-stats"]], ids=["statistics", "recorder"])
def test_a_call_at_the_end_of_a_chunk_asks_the_system_for_nothing(
    folder: Path, options: list[str]
) -> None:
    """One at some depth does, without opscope: that is CPython's own, and what this is about."""
    plainly = json.loads(python("train.py", cwd=folder).stdout)
    assert plainly >= CALLS, "this Python has other ways: nothing is to be kept for it"
    done = opscope("run", "--no-page", *options, "train.py", cwd=folder)
    assert json.loads(done.stdout) < CALLS / 10


AGAIN = """
import sys
import opscope, torch

def deep(depth):
    return depth if depth == 0 else deep(depth - 1)

for turn in range(3):
    import opscope
    opscope.start(run_dir=f"run{turn}", page=False)
    torch.ones(2).exp()
    opscope.stop()
    deep(900)
    for name in [name for name in sys.modules if name.startswith("opscope")]:
        del sys.modules[name]
print("ended")
"""


def test_modules_that_are_loaded_again_keep_chunks_once(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    done = python("again.py", cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr

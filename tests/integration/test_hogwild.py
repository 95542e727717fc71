"""Processes that train a shared model without joining a group: not recorded, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.forked import forked_opscope as opscope

SCRIPT = """
import sys
import torch
import torch.multiprocessing as mp
from torch import nn

def train(model):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 2)).square().mean().backward()
        optimizer.step()

def compute(model):
    with torch.no_grad():
        model(torch.ones(2, 2))

def main(method, target):
    torch.manual_seed(0)
    context = mp.get_context(method)
    model = nn.Linear(2, 1)
    model.share_memory()
    before = model.weight.detach().clone()
    processes = [context.Process(target=target, args=(model,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes], bool((model.weight != before).all()))

if __name__ == "__main__":
    main(sys.argv[1], {"train": train, "compute": compute}[sys.argv[2]])
"""
SAID = "trains without joining a process group"


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_each_process_says_once_that_it_is_not_recorded(tmp_path: Path, method: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = opscope("run", "--run-dir", "run", "train.py", method, "train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 0] True\n"
    assert done.stderr.count(SAID) == 2
    assert not list((tmp_path / "run").glob("rank_*"))


def test_processes_that_only_compute_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = opscope("run", "--run-dir", "run", "train.py", "fork", "compute", cwd=tmp_path)
    assert done.stdout == "[0, 0] False\n"
    assert SAID not in done.stderr

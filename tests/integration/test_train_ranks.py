"""Model, checkpoints and Print with two ranks; run by `make test-long`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.forked import forked_python as python
from opscope.train import load_checkpoint

pytestmark = pytest.mark.long

TRAIN = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from opscope import print_
from opscope.train import Callback, Model, ModelCheckpoint
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = DistributedDataParallel(torch.nn.Linear(4, 3))
torch.manual_seed(rank)
data = [(torch.randn(8, 4), torch.zeros(8, dtype=torch.long)) for _ in range(3)]
class Look(Callback):
    def end(self, run_context):
        arguments = run_context.original_args()
        print_("mode", arguments.parallel_mode, arguments.device_number)
model = Model(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
model.train(2, data, callbacks=[ModelCheckpoint("net", "saved"), Look()])
torch.save(net.module.weight.detach(), f"weight_{rank}.pt")
dist.destroy_process_group()
"""


def test_two_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = python(*launcher, "train.py", cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"[rank {rank}]")]
        assert [line[9:] for line in lines] == ["mode", "data_parallel", "2"]
    weights = [torch.load(tmp_path / f"weight_{rank}.pt") for rank in (0, 1)]
    assert torch.equal(*weights)
    saved = load_checkpoint(tmp_path / "saved" / "net-2_3.ckpt")
    assert torch.equal(saved["weight"], weights[0])
    assert len(list((tmp_path / "saved").iterdir())) == 5

"""Dumps of several processes: a tree per rank, which can be copied together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from test_dump_shared import load, name_of, npy_files, write_config

from helpers.forked import forked_ranks

DDP = """
import sys
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    x = torch.full((4, 3), 1.0 + rank)
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
"""


def run_ranks(folder: Path, configs: list[Path]) -> list[str]:
    """Each rank with a config of its own, as on two nodes; returns what they said."""
    (folder / "train.py").write_text(DDP)
    done = forked_ranks([("run", "--dump", config, "train.py") for config in configs], folder)
    said = [each.stderr for each in done]
    assert [each.returncode for each in done] == [0, 0], said
    return said


def inputs_of(rank: Path) -> list[np.ndarray]:
    files = [f for f in npy_files(rank / "Net/0") if name_of(f)[0] == "addmm"]
    return [load(file) for file in files if name_of(file)[5:7] == ["input", "1"]]


@pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])
def test_each_rank_has_its_tree_and_they_can_be_copied_together(tmp_path: Path, enable) -> None:
    configs = [
        write_config(tmp_path, f"{n}.json", enable=enable, path=str(tmp_path / f"node{n}"))
        for n in range(2)
    ]
    run_ranks(tmp_path, configs)
    for rank in range(2):
        assert [p.name for p in (tmp_path / f"node{rank}").glob("rank_*")] == [f"rank_{rank}"]
    together = tmp_path / "together"
    for rank in range(2):
        shutil.copytree(tmp_path / f"node{rank}", together, dirs_exist_ok=True)
    for rank in range(2):
        tree = together / f"rank_{rank}"
        listed = json.loads((tree / ".dump_metadata/manifest.json").read_text())
        assert (listed["rank"], listed["complete"]) == (rank, True)
        found = inputs_of(tree)
        assert len(found) == 2
        assert all((array == 1.0 + rank).all() for array in found)
        assert (tree / "graphs/ms_output_trace_code_graph_0.ir").is_file()
        reduced = [f for f in npy_files(tree) if "allreduce" in f.name]
        assert reduced, "collectives are operators too"


def test_ranks_share_a_path(tmp_path: Path) -> None:
    config = write_config(tmp_path, support_device=[0], iteration="1", file_format="bin")
    said = run_ranks(tmp_path, [config, config])
    assert sorted(p.name for p in (tmp_path / "dump").glob("rank_*")) == ["rank_0", "rank_1"]
    for rank in range(2):
        tree = tmp_path / "dump" / f"rank_{rank}"
        assert [p.parent.name for p in tree.rglob("*.safetensors")] == ["1"]
        assert said[rank].count('"support_device" has no effect on the CPU') == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="checks what happens without a device")
def test_devices_do_not_matter_on_the_cpu(tmp_path: Path) -> None:
    config = write_config(tmp_path, support_device=[7], iteration="0")
    run_ranks(tmp_path, [config, config])
    assert inputs_of(tmp_path / "dump/rank_1")

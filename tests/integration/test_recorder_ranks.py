"""Four ranks of which one never enters a collective: the report says which, and who waits."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.forked import forked_ranks

TRAIN = """
import json, os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, folder = dist.get_rank(), Path(sys.argv[1])
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def reports():
    files = [folder / f"rank_{r}" / "rdr" / "report.json" for r in range(4)]
    return all(file.exists() for file in files)


for step in range(3):
    net(torch.ones(2, 4)).sum().backward()
    if step == 2 and rank == 2:
        give_up = time.monotonic() + 60
        while not reports() and time.monotonic() < give_up:
            time.sleep(0.1)
        from opscope.record.post_mortem import report_of

        (folder / "together.json").write_text(json.dumps(report_of(folder)))
        os._exit(0)
    dist.all_reduce(net.weight.grad)
    optimizer.step()
"""


def test_the_rank_that_a_collective_misses_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "opscope.toml").write_text(f'[rdr]\npath = "{tmp_path}"\nhang = 2\n')
    words = ("run", "--no-stats", "train.py", str(tmp_path))
    forked_ranks([words] * 4, tmp_path)
    report = json.loads((tmp_path / "together.json").read_text())
    (missing,) = report["missing"]
    assert missing["waiting"] == [0, 1, 3] and missing["missing"] == [2]
    assert missing["number"] == 3 and missing["name"] == "c10d_allreduce_"
    assert missing["source"]["code"] == "dist.all_reduce(net.weight.grad)"
    assert report["first"] == 2 and report["cause"] == "hang"
    assert report["world_size"] == 4 and report["absent"] == []
    for rank in report["ranks"]:
        assert rank["cause"] == "hang" and rank["step"] == 2
        last = rank["last_op"]
        if rank["rank"] == 2:
            assert last["phase"] == "backward" and last["finished"]
        else:
            assert last["op"] == "c10d::allreduce_" and not last["finished"]
            assert last["collective"] == 3

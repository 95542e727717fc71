"""Ranks whose disk the server cannot see: what they record comes over the link.

Each rank has a file system of its own, by a mount that only it sees.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live.conftest import Process, Server, free_port, wait_for
from opscope.errors import OpscopeError
from opscope.live.run_files import CHUNK, RunFiles, may_travel
from opscope.rundir.layout import rank_directory, run_key

SCRIPT = """
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
network = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
for step in range(40):
    loss = network(torch.randn(16, 8)).square().mean()
    if rank == 1 and step == 20:
        loss = loss + torch.log(torch.zeros(1)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained", flush=True)
dist.destroy_process_group()
"""
LAUNCH = """
mount -t tmpfs none {private} && cp ddp.py {private} && cd {private} || exit 99
{python} -m opscope run --wait --extra-stats median_abs --server 127.0.0.1:{port} ddp.py
code=$?
cp -r {private}/opscope-runs {visible}
exit $code
"""
DIES = """
import glob
import os
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
network = nn.Linear(8, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
for step in range(1000):
    network(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
    if step >= 3 and glob.glob("opscope-runs/*/rank_0/.server.json"):
        os.kill(os.getpid(), 15) if sys.argv[1] == "SIGTERM" else network(torch.ones(2, 3))
"""
LAUNCH_ONE = """
mount -t tmpfs none {private} && cp dies.py {private} && cd {private} || exit 99
exec {python} -m opscope run --server 127.0.0.1:{port} dies.py {how}
"""


def can_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class Apart:
    """Two ranks on two machines, and what the server has of them."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.visible = [folder / "after_0", folder / "after_1"]
        port = str(free_port())
        self.processes = [self._start(folder, rank, port) for rank in (0, 1)]
        self.run = str(wait_for(self._found, 90))

    def _start(self, folder: Path, rank: int, port: str) -> Process:
        (folder / "ddp.py").write_text(SCRIPT)
        private = folder / f"private_{rank}"
        private.mkdir()
        shell = LAUNCH.format(
            private=private,
            visible=self.visible[rank],
            python=sys.executable,
            port=self.server.debugger_port,
        )
        launcher = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_PORT": port}
        return Process(
            folder,
            shell,
            program=("unshare", "-rm", "sh", "-c"),
            MASTER_ADDR="127.0.0.1",
            TORCHELASTIC_RUN_ID="apart",
            **launcher,
        )

    def _found(self) -> str | None:
        for process in self.processes:
            assert process.process.poll() is None, process.text
        runs = self.server.live_runs()
        return runs[0] if runs and len(self.server.ranks(runs[0])) == 2 else None

    def get(self, rank: int, what: str, **query: Any) -> Any:
        return self.server.get(f"/runs/{self.run}/ranks/{rank}/{what}", **query)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    if not can_mount():
        pytest.skip("needs a mount of its own")
    for name in ("server", "apart"):
        (tmp_path / name).mkdir()
    server = Server(tmp_path / "server")
    found = Apart(tmp_path / "apart", server)
    yield found
    for process in (*found.processes, server.process):
        process.kill()


def test_ranks_of_two_machines_are_one_run(apart: Apart) -> None:
    they_are_one_run(apart)
    a_hit_comes_over_the_link(apart)
    the_copy_is_what_the_ranks_have_written(apart)


def they_are_one_run(apart: Apart) -> None:
    server, run = apart.server, apart.run
    assert server.live_runs() == [run]
    server.until(run, "waiting")
    server.post(f"/runs/{run}/watchpoints", action="set", watch="recommended")
    server.post(f"/runs/{run}/keep", nodes=["*relu-op0"])
    server.control(run, "step", count=5)
    assert {rank["step"] for rank in server.until(run, "paused")} == {4}
    for rank in (0, 1):
        wait_for(lambda rank=rank: apart.get(rank, "strip")["steps"] == [0, 1, 2, 3, 4])
        (node,) = apart.get(rank, "nodes", text="1-ReLU/relu-op0", step=4)["nodes"]
        kept = server.client.post(
            f"/runs/{run}/value?rank={rank}", json={"node": "1-ReLU/relu-op0", "part": "facts"}
        ).json()
        assert kept["places"]["max"]["value"] == pytest.approx(node["max"])
    found = server.post(f"/runs/{run}/recheck", watch="TL max_gt=-1000000")
    assert found["step"] == 4 and found["hits"]
    assert "running" in server.get(f"/runs/{run}")["state"]


def a_hit_comes_over_the_link(apart: Apart) -> None:
    server, run = apart.server, apart.run
    server.control(run, "continue")
    ranks = server.until(run, "paused", 60)
    assert {rank["step"] for rank in ranks} == {20} and all(rank["hit"] for rank in ranks)
    wait_for(lambda: apart.get(1, "hits")["total"])
    assert "log" in apart.get(1, "verdict")["sentence"]
    server.post(f"/runs/{run}/watchpoints", action="set", watch="none")
    server.control(run, "continue")


def the_copy_is_what_the_ranks_have_written(apart: Apart) -> None:
    for process in apart.processes:
        assert process.wait(90) == 0, process.text
        assert "trained" in process.text and "too slow" not in process.text
    (copy,) = (apart.server.folder / "opscope-runs").iterdir()
    for rank, visible in enumerate(apart.visible):
        (written,) = (path for path in visible.iterdir() if path.is_dir())
        assert content(rank_directory(written, rank)) == content(rank_directory(copy, rank))
        assert content(written / "sources").items() <= content(copy / "sources").items()
    state = apart.server.get(f"/runs/{apart.run}")["state"]
    assert "finished" in state and "running" not in state


def test_the_recordings_of_dead_ranks_come_over_the_link(tmp_path: Path) -> None:
    """One that raises sends its recording itself; for one that a signal ends, its witness does."""
    if not can_mount():
        pytest.skip("needs a mount of its own")
    server = Server(tmp_path)
    (tmp_path / "dies.py").write_text(DIES)
    trainings = [dying(tmp_path, server, how) for how in ("SIGTERM", "raise")]
    try:
        assert [training.wait(60) for training in trainings] == [-15, 1]
        found = wait_for(lambda: copied_reports(tmp_path, 2))
        assert sorted(each["cause"] for each in found) == ["SIGTERM", "exception"]
        for each in found:
            assert each["last_op"]["scope"].startswith("Default/")
            assert each["source"]["file"].endswith("dies.py") and each["steps"]
        for folder in tmp_path.glob("opscope-runs/*/recorder/rank_0/rdr"):
            names = {each.name for each in folder.iterdir()}
            assert {"ring.bin", "graph_0.ir", "stacks.txt"} <= names and "lock" not in names
            shown = server.get(f"/recordings/{run_key(folder.parents[2])}/timeline")
            assert shown["ranks"][0]["lanes"]
    finally:
        for process in (*trainings, server.process):
            process.kill()


def dying(folder: Path, server: Server, how: str) -> Process:
    """A training on a machine of its own, which dies when the server has begun to copy it."""
    private = folder / f"private_{how}"
    private.mkdir()
    port = server.debugger_port
    shell = LAUNCH_ONE.format(private=private, python=sys.executable, port=port, how=how)
    return Process(folder, shell, program=("unshare", "-rm", "sh", "-c"))


def copied_reports(folder: Path, count: int) -> list[dict[str, Any]]:
    """Reports that have been copied, if there are so many."""
    files = list(folder.glob("opscope-runs/*/recorder/rank_0/rdr/report.json"))
    return [json.loads(file.read_text()) for file in files] if len(files) == count else []


def content(folder: Path) -> dict[str, bytes]:
    """All files with what is in them; who holds the lock is no part of it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "path",
    [
        "../run.json",
        "rank_0/../../etc/passwd",
        "/etc/passwd",
        "rank_0/stats/../../run.json",
        "rank_0/..",
        "sources/../run.json",
        "rank_0/lock",
        "rank_0/.nodes.jsonl",
        "rank_0/hits/../nodes.jsonl",
        "recorder/rank_0/rdr/lock",
        "recorder/rank_0/rdr/../../../run.json",
        "recorder/rank_0/../run.json",
        "run.json\n",
        "",
    ],
)
def test_only_files_of_the_run_travel(tmp_path: Path, path: str) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert not may_travel(path)
    with pytest.raises(OpscopeError):
        RunFiles(tmp_path, 0).read(path, 0, CHUNK)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "secret").symlink_to("/etc/passwd")
    files = RunFiles(tmp_path, 0)
    assert files.listing() == []
    with pytest.raises(OpscopeError):
        files.read("sources/secret", 0, CHUNK)

"""Four ranks are held, stepped and ended together, whichever of them has the hit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from live.conftest import Process, Ranks, Server, free_port, wait_for

DDP = """
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
timeout = timedelta(seconds=int(os.environ.get("GROUP_TIMEOUT", "600")))
dist.init_process_group("gloo", timeout=timeout)
rank = dist.get_rank()
torch.manual_seed(rank)
bad = int(sys.argv[2])
network = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
for step in range(int(sys.argv[1])):
    loss = network(torch.randn(16, 8)).square().mean()
    if rank == 2 and step == bad:
        noise = torch.log(torch.zeros(1)).sum()
        print(noise.item() > 0)
        loss = loss + 0 * noise
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.002 * rank)
print(f"trained {step + 1}", flush=True)  # one write: ranks share a file
dist.destroy_process_group()
"""


Launched = Process | Ranks


@pytest.fixture(params=["forked", pytest.param("torchrun", marks=pytest.mark.long)])
def four_ranks(
    request: pytest.FixtureRequest, tmp_path: Path, server: Server
) -> Iterator[Callable[..., Launched]]:
    (tmp_path / "ddp.py").write_text(DDP)
    launched: list[Launched] = []

    def start(*options: str, steps: int = 100_000, bad: int = -1) -> Launched:
        address = f"127.0.0.1:{server.debugger_port}"
        words = ("run", "--server", address, *options, "ddp.py", str(steps), str(bad))
        by_torchrun = request.param == "torchrun"
        found = torchrun(tmp_path, words) if by_torchrun else Ranks(tmp_path, 4, *words)
        launched.append(found)
        return found

    yield start
    for each in launched:
        each.kill()


def torchrun(folder: Path, words: tuple[str, ...]) -> Process:
    launcher = folder / "launch.py"
    launcher.write_text(
        "import sys\nfrom torch.distributed.run import main\n"
        f"sys.exit(main(['--standalone', '--nproc-per-node=4', '-m', 'opscope', *{words!r}]))"
    )
    return Process(folder, launcher, program=(sys.executable,))


def run_of(server: Server, before: set[str], count: int = 4) -> str:
    def found() -> str | None:
        new = [run for run in server.live_runs() if run not in before]
        return new[0] if new and len(server.ranks(new[0])) == count else None

    return str(wait_for(found, 90))


def test_four_ranks_hold_at_the_same_step(
    server: Server, four_ranks: Callable[..., Launched]
) -> None:
    before = set(server.live_runs())
    process = four_ranks("--wait")
    run = run_of(server, before)
    server.until(run, "waiting", 60)
    server.control(run, "step", count=3)
    assert {rank["step"] for rank in server.until(run, "paused", 60)} == {2}
    for _ in range(3):
        server.control(run, "continue")
        server.control(run, "pause")
        ranks = server.until(run, "paused", 60)
        assert len({rank["step"] for rank in ranks}) == 1
    server.control(run, "step", count=2)
    step = ranks[0]["step"]
    assert {rank["step"] for rank in server.until(run, "paused", 60)} == {step + 2}
    refused = server.control(run, "next", 400)
    assert "one rank" in refused["error"]
    server.control(run, "terminate")
    assert process.wait(90) != 0
    assert "/opscope/live" not in process.text  # no traceback of ours


def test_a_hit_on_one_rank_holds_all_before_the_update(
    server: Server, four_ranks: Callable[..., Launched]
) -> None:
    before = set(server.live_runs())
    process = four_ranks("--on-hit", "pause", steps=30, bad=12)
    run = run_of(server, before)
    ranks = server.until(run, "paused", 90)
    assert {rank["step"] for rank in ranks} == {12}
    reasons = [rank["reason"] for rank in ranks]
    assert all("hit" in reason for reason in reasons)
    server.post(f"/runs/{run}/watchpoints", action="set", watch="none")
    server.control(run, "continue")
    assert process.wait(90) == 0 and process.text.count("trained 30") == 4


def by_hand(server: Server, folder: Path, started: list[Process], **environ: str) -> str:
    """Start two ranks without a launcher, which would end the other if one dies; their run."""
    (folder / "ddp.py").write_text(DDP)
    before = set(server.live_runs())
    words = ("run", "--wait", "--server", f"127.0.0.1:{server.debugger_port}", "ddp.py")
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    for rank in ("0", "1"):
        launched = place | {"RANK": rank, "TORCHELASTIC_RUN_ID": folder.name} | environ
        started.append(Process(folder, *words, "100000", "-1", **launched))
    run = run_of(server, before, 2)
    server.until(run, "waiting", 60)
    return run


def held_with_a_dead_rank(server: Server, folder: Path, started: list[Process]) -> str:
    run = by_hand(server, folder, started)
    server.control(run, "step", count=2)
    server.until(run, "paused", 60)
    started[1].kill()
    wait_for(lambda: [rank["state"] for rank in server.ranks(run)] == ["paused", "dead"])
    return run


def test_a_rank_that_dies_is_dead_and_the_others_can_be_told_to_stop(
    server: Server, tmp_path: Path, started: list[Process]
) -> None:
    run = held_with_a_dead_rank(server, tmp_path, started)
    server.control(run, "terminate")
    assert started[0].wait(60) == 130, started[0].text


@pytest.mark.long
def test_the_others_of_a_rank_that_dies_can_be_told_to_go_on(
    server: Server, tmp_path: Path, started: list[Process]
) -> None:
    run = held_with_a_dead_rank(server, tmp_path, started)
    server.control(run, "continue")
    left = started[0]
    assert left.wait(60) == 1, "its next collective fails, as it would without opscope"
    assert "Connection closed by peer" in left.text or "Connection reset" in left.text


@pytest.mark.long
def test_the_time_out_of_the_process_group_does_not_run_while_ranks_hold(
    server: Server, tmp_path: Path, started: list[Process]
) -> None:
    run = by_hand(server, tmp_path, started, GROUP_TIMEOUT="10")
    for count in (2, 3):
        server.control(run, "step", count=count)
        server.until(run, "paused", 60)
        time.sleep(25)
    server.control(run, "step")
    assert {rank["step"] for rank in server.until(run, "paused", 60)} == {5}

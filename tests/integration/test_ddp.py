"""Data parallel training on two gloo processes: by torchrun, by `mp.spawn`, and its collectives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as functional

from helpers.forked import forked_opscope as opscope
from helpers.models import Trained, assert_identical, ddp, shards
from helpers.program import python
from helpers.ranks import run_ranks
from helpers.recorder import Recorder, recording
from opscope.dump.transport.ownership import RankLock
from opscope.errors import OpscopeError
from opscope.events import Call, PassingValue
from opscope.read.run import open_run

WORLD = 2
TESTS = str(Path(__file__).parents[1])

SCRIPT = f"""
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def train(rank, folder, how):
    sys.path.insert(0, {TESTS!r})
    from helpers.models import ddp
    torch.set_num_threads(1)
    where = {{}} if how == "torchrun" else dict(init_method=f"file://{{folder}}/store", rank=rank)
    dist.init_process_group("gloo", world_size={WORLD}, **where)
    trained = ddp(dist.get_rank(), {WORLD})
    torch.save(vars(trained), f"{{folder}}/trained-{{dist.get_rank()}}")
    dist.destroy_process_group()

if __name__ == "__main__":
    folder, how = sys.argv[1:]
    if how == "torchrun":
        train(None, folder, how)
    else:
        if how == "spawn-after-forward":
            print(torch.nn.Linear(2, 1)(torch.ones(1, 2)).shape)
        mp.spawn(train, (folder, how), nprocs={WORLD})
"""


def run_in_group(target: Callable[..., None], folder: Path, *args: object) -> None:
    """Runs `target(rank, …)` in two processes with a process group; any failure is ours."""
    where = str(folder / f"store-{time.monotonic_ns()}")
    run_ranks(join_group, WORLD, target, where, *args)


def join_group(rank: int, target: Callable[..., None], store: str, *args: object) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    target(rank, *args)
    dist.destroy_process_group()


def save_plain(rank: int, folder: str) -> None:
    torch.save(vars(ddp(rank, WORLD)), f"{folder}/trained-{rank}")


def load(folder: Path, rank: int) -> Trained:
    return Trained(**torch.load(folder / f"trained-{rank}", weights_only=False))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Trained]:
    """The outcome of each rank without opscope."""
    folder = tmp_path_factory.mktemp("plain")
    run_in_group(save_plain, folder, str(folder))
    return [load(folder, rank) for rank in range(WORLD)]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with the script and a dump config."""
    (tmp_path / "train.py").write_text(SCRIPT)
    common = {"dump_mode": 0, "path": str(tmp_path / "dump"), "iteration": "0|1"}
    config = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}
    (tmp_path / "dump.json").write_text(json.dumps(config))
    return tmp_path


def mean_gradient() -> np.ndarray:
    """All gradients of the first step, the mean over the ranks, as one sorted row."""
    torch.manual_seed(16)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    for rank in range(WORLD):
        inputs, target = next(shards(rank, WORLD))
        (nn.functional.cross_entropy(model(inputs), target) / WORLD).backward()
    return np.sort(torch.cat([p.grad.flatten() for p in model.parameters()]).numpy())


def dumped(job: Path, rank: int, what: str, io: str) -> np.ndarray:
    (file,) = (job / "dump" / f"rank_{rank}" / "Net" / "0" / "0").glob(f"{what}.*.{io}.0.*.npy")
    return np.load(file)


def assert_dumped_and_recorded(job: Path, plain: list[Trained]) -> None:
    """Both ranks trained as they do alone, and both are in the dump and in the one run."""
    run = open_run(job / "run")
    assert run.state == "finished"
    assert list(run.ranks) == [0, 1]
    for rank in range(WORLD):
        assert_identical(load(job, rank), plain[rank])
        steps = [step for step in run.rank(rank).steps if step.complete]
        assert [step.losses[0].value for step in steps] == plain[rank].losses
        manifest = job / "dump" / f"rank_{rank}" / ".dump_metadata" / "manifest.json"
        assert json.loads(manifest.read_text())["complete"] is True
        reduced = dumped(job, rank, "c10d_allreduce_", "output")
        np.testing.assert_allclose(np.sort(reduced), mean_gradient(), rtol=1e-4, atol=1e-7)


def test_torchrun(job: Path, plain) -> None:
    options = ("--dump", "dump.json", "--run-dir", "run", "train.py", str(job), "torchrun")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORLD))
    done = python(*launcher, "-m", "opscope", "run", *options, cwd=job)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    assert_dumped_and_recorded(job, plain)


@pytest.mark.long
def test_ranks_started_by_the_script_join_the_run(job: Path, plain) -> None:
    options = ("--dump", "dump.json", "--run-dir", "run", "train.py", str(job), "spawn")
    done = opscope("run", *options, cwd=job)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    assert_dumped_and_recorded(job, plain)
    assert "nothing was recorded" not in done.stderr


@pytest.mark.long
def test_ranks_started_after_the_script_called_a_module_itself(job: Path, plain) -> None:
    options = ("--dump", "dump.json", "--run-dir", "run", "train.py", str(job))
    done = opscope("run", *options, "spawn-after-forward", cwd=job)
    assert done.returncode == 0, done.stderr
    assert_dumped_and_recorded(job, plain)


def test_ranks_that_start_at_the_same_moment_do_not_shut_each_other_out(tmp_path: Path) -> None:
    """Each rank looks at the locks of the others while they are being made."""
    barrier, failures = threading.Barrier(WORLD, timeout=30), []

    def claim(rank: int) -> None:
        for attempt in range(200):
            barrier.wait()
            try:
                RankLock(tmp_path / str(attempt), rank, "one-run").release()
            except OpscopeError as error:
                failures.append(str(error))

    threads = [threading.Thread(target=claim, args=(rank,)) for rank in range(WORLD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def check_reduced_buckets(rank: int) -> None:
    with recording() as seen:
        ddp(rank, WORLD)
    reduce = seen.one("c10d_allreduce_")
    both = [torch.empty_like(reduce.inputs[0]) for _ in range(WORLD)]
    dist.all_gather(both, reduce.inputs[0])
    assert not torch.equal(both[0], both[1])
    assert torch.equal(reduce.outputs[0], both[0] + both[1])


def test_buckets_hold_the_sum_over_the_ranks(tmp_path: Path) -> None:
    run_in_group(check_reduced_buckets, tmp_path)


class PlainTensors(Recorder):
    """Keeps no copies of tensor subclasses, which have no memory of their own."""

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        super().outputs(call, [value for value in values if type(value.tensor) is Tensor])


def check_late_partner(rank: int, functionally: bool) -> None:
    """Rank 1 comes late: on rank 0 the operator returns long before it is done."""
    with recording(PlainTensors()) as seen:
        mine = torch.full((1000,), float(rank + 1))
        time.sleep(0.5 * rank)
        if functionally:
            total = functional.all_reduce(mine, "sum", dist.group.WORLD) * 1
        else:
            work = dist.all_reduce(mine, async_op=True)
            torch.ones(3).exp()  # something else meanwhile
            work.wait()
            total = mine * 1
    assert torch.equal(total, torch.full((1000,), 3.0))
    name = "_c10d_functional_all_reduce" if functionally else "c10d_allreduce_"
    for slot, value in seen.one(name).outputs.items():
        assert torch.equal(value, torch.full((1000,), 3.0)), slot


@pytest.mark.parametrize("functionally", [False, True], ids=["c10d", "functional"])
def test_a_collective_is_recorded_when_it_is_done(tmp_path: Path, functionally) -> None:
    run_in_group(check_late_partner, tmp_path, functionally)


def check_collective_across_steps(rank: int) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording() as seen:
        model(torch.ones(1, 2)).sum().backward()
        mine = torch.full((1000,), float(rank + 1))
        time.sleep(0.5 * rank)
        work = dist.all_reduce(mine, async_op=True)
        optimizer.step()
        work.wait()
        assert torch.equal(mine * 1, torch.full((1000,), 3.0))
    for value in seen.one("c10d_allreduce_").outputs.values():
        assert torch.equal(value, torch.full((1000,), 3.0))


def test_a_collective_that_is_not_done_when_the_step_ends(tmp_path: Path) -> None:
    run_in_group(check_collective_across_steps, tmp_path)


def outputs_of(seen: Recorder, op_type: str) -> list[Tensor]:
    call = seen.one(op_type)
    return [call.outputs[slot] for slot in sorted(call.outputs)]


def check_other_collectives(rank: int) -> None:
    with recording() as seen:
        mine = torch.full((2,), float(rank + 1))
        everyone = [torch.zeros(2) for _ in range(WORLD)]
        dist.all_gather(everyone, mine)
        news = torch.full((3,), float(rank))
        dist.broadcast(news, src=1)
        part = torch.zeros(1)
        dist.reduce_scatter_tensor(part, torch.tensor([1.0, 2.0]) * (rank + 1))
        dist.barrier()
    gathered = outputs_of(seen, "c10d_allgather_")
    for number in range(WORLD):
        assert any(torch.equal(t, torch.full((2,), number + 1.0)) for t in gathered)
    assert torch.equal(outputs_of(seen, "c10d_broadcast_")[0], torch.ones(3))
    scattered = outputs_of(seen, "c10d__reduce_scatter_base_")
    assert torch.equal(part, torch.tensor([3.0 * (rank + 1)]))
    assert any(torch.equal(t, part) for t in scattered)


def test_other_collectives(tmp_path: Path) -> None:
    run_in_group(check_other_collectives, tmp_path)

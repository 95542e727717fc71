"""The native hook when a sink raises, a signal comes, the process is killed or has children."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from helpers import twice
from helpers.forked import forked_python as python
from helpers.hook_programs_unusual import Counting
from helpers.twice import STATS, VALUES, capturing, watch
from opscope.events import BaseSink, Want
from opscope.messages import forget_said
from opscope.read.run import open_run

pytestmark = [twice.needs_hook, pytest.mark.usefixtures("few_objects")]


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    forget_said()


# --------------------------------------------------------------------------- interrupts and errors


def small_training(steps: int = 100_000) -> Iterator[float]:
    """A training, step by step."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.full((3, 4), 1.0 + step % 5)).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


class Failing(BaseSink):
    """A sink one of whose callbacks raises in the middle of step 2; it notes what it gets."""

    def __init__(self, callback: str, error: BaseException, wanted: Want) -> None:
        self.capture: Any = None
        self.wanted = wanted
        self.raised = 0
        self.rows = 0
        self.steps: list[int] = []
        original = getattr(self, callback, None)

        def fail(*args: Any) -> Any:
            if len(self.steps) >= 2 and not self.raised:
                self.raised += 1
                raise error
            return original(*args) if original is not None else None

        setattr(self, callback, fail)

    def wants(self, node: Any) -> Want:
        return self.wanted

    def stats(self, rows: Any) -> None:
        self.rows += len(rows)

    def step_end(self, record: Any) -> None:
        self.steps.append(record.step)


CALLBACKS = ("inputs", "outputs", "stats", "step_end", "step_begin", "parameter")


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_sink_that_raises_is_dropped_and_training_goes_on(callback, capsys) -> None:
    plain = list(small_training(5))
    forget_said()
    sink = Failing(callback, ValueError("broken sink"), VALUES | STATS | Want.PARAMETERS)
    with capturing(sink, native=True) as capture:
        losses = list(small_training(5))
        native, python_calls = capture._watch.hook.counts
    assert losses == plain
    assert sink.raised == 1
    assert len(sink.steps) in (2, 3)  # nothing after it was dropped
    assert native > python_calls
    err = capsys.readouterr().err
    assert "broken sink" in err and "switched off" in err


@pytest.mark.parametrize("callback", ["inputs", "outputs", "stats"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_callback_reaches_the_script(callback, error, capsys) -> None:
    stop = error("stop")
    sink = Failing(callback, stop, VALUES | STATS | Want.PARAMETERS)
    with capturing(sink, native=True) as capture:
        with pytest.raises(error, match="stop"):
            list(small_training(6))
        stop.__traceback__ = None  # or the optimizer lives on, and steps wait for it
        assert sink.raised == 1
        before = capture._watch.hook.counts[0]
        for _ in small_training(3):  # capture still works
            pass
        assert capture._watch.hook.counts[0] > before
    assert len(sink.steps) >= 4
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.long  # where the signal comes is a matter of luck
@pytest.mark.parametrize(
    "wanted", [STATS, VALUES, Want.NOTHING], ids=["stats", "values", "nothing"]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_a_signal_reaches_the_script(error, wanted) -> None:
    def handler(number: int, frame: Any) -> None:
        raise error("signal")

    before = signal.signal(signal.SIGALRM, handler)
    sink = Failing("open", ValueError(), wanted)
    try:
        with capturing(sink, native=True) as capture:
            for round_ in range(4):  # at other moments each time
                training = small_training()
                for _ in range(3):
                    next(training)
                with pytest.raises(error, match="signal"):
                    signal.setitimer(signal.ITIMER_REAL, 0.02 + 0.0013 * round_)
                    for _ in training:
                        pass
            done = len(sink.steps)
            assert len(list(small_training(3))) == 3
            assert len(sink.steps) >= done + 2
            assert capture._watch.hook.counts[0] > capture._watch.hook.counts[1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


KILLED = """
import os, signal, sys
import torch
from torch import nn
import opscope

torch.manual_seed(0)
torch.set_num_threads(1)
session = opscope.start(run_dir="run")
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(4):
    optimizer.zero_grad()
    out = model(torch.full((3, 4), 1.0 + step))
    loss = out.square().mean()
    if step == 3:
        hook = session.capture._watch.hook
        print(*hook.counts, *sum(out.tolist(), []), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    optimizer.step()
"""


def test_a_kill_in_the_middle_of_a_step_leaves_its_rows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(KILLED)
    done = python("train.py", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    native, left, *out = map(float, done.stdout.split())
    assert native > left / 2
    run = open_run(tmp_path / "run")
    assert run.state == "killed"
    rank = run.rank(0)
    assert [step.step for step in rank.steps] == [0, 1, 2]
    rows = rank.stats(steps=[3])
    names = [rank.nodes[int(row["node"])].name for row in rows if row["io"] == 1]
    full = [rank.nodes[int(row["node"])].name for row in rank.stats(steps=[2]) if row["io"] == 1]
    # All the outputs up to the kill, and nothing of what did not run.
    assert names == full[: len(names)]
    assert names[-1].endswith("/mean-op0")
    (second,) = [
        row
        for row in rows
        if rank.nodes[int(row["node"])].name.endswith("2-Linear/addmm-op0") and row["io"] == 1
    ]
    assert second["count"] == 3
    assert second["max"] == max(out) and second["min"] == min(out)


# ---------------------------------------------------------------------------------- other processes

WORKERS = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
import opscope

class Numbers(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        assert not _get_current_dispatch_mode_stack()
        made = torch.full((2,), float(index)).sinh().atan()
        made.requires_grad_()
        (made * 2).sum().backward()  # saves tensors, which the hook sees too
        return made.grad * made.detach(), torch.tensor([float(index)])

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    session = opscope.start(run_dir="run") if sys.argv[1] == "watched" else None
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for epoch in range(2):
        for x, y in DataLoader(Numbers(), 4, num_workers=2, multiprocessing_context="fork"):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item())
    if session is not None:
        native, python = session.capture._watch.hook.counts
        print(native, python, file=sys.stderr)
        assert native > 2 * python, (native, python)

if __name__ == "__main__":
    main()
"""


@pytest.mark.long
def test_forked_workers_are_left_alone_by_the_hook(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORKERS)
    plain = python("train.py", "plain", cwd=tmp_path)
    watched = python("train.py", "watched", cwd=tmp_path)
    assert watched.returncode == 0, watched.stderr
    assert watched.stdout == plain.stdout
    assert len(plain.stdout.splitlines()) == 12
    assert "internal error" not in watched.stderr
    rank = open_run(tmp_path / "run").rank(0)
    assert [step.step for step in rank.steps if step.complete] == [*range(12)]
    assert not {"sinh", "atan"} & {node.op_type for node in rank.nodes.values()}


SPAWNED = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
import opscope
from opscope.session import current_session

def train(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        optimizer.zero_grad()
        loss = model(torch.full((2, 3), 1.0 + rank + step)).square().sum()
        loss.backward()
        optimizer.step()
    with open(f"{folder}/counts-{rank}", "w") as file:
        print(*current_session().capture._watch.hook.counts, file=file)
    dist.destroy_process_group()

if __name__ == "__main__":
    opscope.start(run_dir="run")
    mp.spawn(train, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.long
def test_spawned_ranks_have_hooks_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNED)
    done = python("train.py", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert run.ranks.keys() == {0, 1}
    for number in run.ranks:
        native, left = map(int, (tmp_path / f"counts-{number}").read_text().split())
        assert native > left > 0
        rank = run.rank(number)
        assert [step.step for step in rank.steps if step.complete] == [*range(6)]
        full = [node.id for node in rank.nodes.values() if node.op == "aten.full.default"]
        batches = [row["max"] for row in rank.stats(nodes=full) if row["io"] == 1]
        assert batches == [1.0 + number + step for step in range(6)]
    assert "internal error" not in done.stderr


def test_one_capture_after_another_uses_the_hook_again() -> None:
    for _ in range(3):
        facts = watch(lambda: list(small_training(4)), native=True)
        assert facts.native_share() == 1.0
        assert len(facts.steps) == 5
    assert list(small_training(4)) == facts.result


def test_without_a_capture_dispatch_is_torchs_own() -> None:
    mode = Counting()
    with mode:
        torch.ones(2) + 1
    assert mode.seen
    before = time.perf_counter()
    watch(lambda: list(small_training(2)), native=True)
    with Counting() as again:
        torch.ones(2) + 1
    assert again.seen == mode.seen
    assert time.perf_counter() - before < 60

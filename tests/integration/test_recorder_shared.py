"""Where recorder and capture both run, one of them is told of operators, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.forked import forked_opscope
from opscope.capture import hook
from opscope.record.reading import OperatorCall, RingReader
from opscope.record.ring import RING_FILE

TRAIN = """
import os
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    loss = net(torch.randn(4, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
os.kill(os.getpid(), 9)
"""
COMPOSITE = {"linear": ["t", "addmm"]}


def recorded(folder: Path) -> dict[int, list[OperatorCall]]:
    """The operators of a training that is killed, by step; every second step has statistics."""
    (folder / "train.py").write_text(TRAIN)
    done = forked_opscope("run", "--no-page", "--every", "2", "train.py", cwd=folder)
    assert done.returncode == -9, done.stderr
    (ring,) = folder.rglob(RING_FILE)
    steps: dict[int, list[OperatorCall]] = {}
    for each in RingReader.open(ring).operators:
        steps.setdefault(each.step, []).append(each)
    return steps


@pytest.mark.skipif(hook.load() is None, reason="there is no native code here")
def test_steps_with_and_without_statistics_leave_the_same_records(tmp_path: Path) -> None:
    steps = recorded(tmp_path)
    for watched, other in ((2, 3), (4, 5)):
        with_node, without = steps[watched], steps[other]
        assert all(each.node is not None for each in with_node)
        assert all(each.node is None for each in without)
        parts = [p for o in without for p in COMPOSITE.get(o.op_type, [o.op_type])]
        assert [each.op_type for each in with_node] == parts
        for about in (phases, lines, scopes):
            assert about(with_node) == about(without)


def phases(calls: list[OperatorCall]) -> dict[str, int]:
    """How many calls of operators that are the same in both each phase has."""
    same = [c.phase for c in calls if c.op_type not in ("linear", "t", "addmm")]
    return {phase: same.count(phase) for phase in same}


def lines(calls: list[OperatorCall]) -> list[tuple[int, ...]]:
    """The lines of all operators but those that add to gradients, which have a line as nodes."""
    found = [
        tuple(line.line for line in c.source if Path(line.file).name == "train.py")
        for c in calls
        if c.op_type != "detach"
    ]
    return list(dict.fromkeys(found))


def scopes(calls: list[OperatorCall]) -> list[str]:
    """The scopes in the order in which they come."""
    return list(dict.fromkeys(c.scope for c in calls))


CLOCK = """
import os, sys, time
import torch

x = torch.ones(1)
asked = open(sys.argv[1], "w")
for turn in range(40):
    time.sleep(0.003 * (turn % 4))
    for _ in range(100):
        before = time.monotonic_ns()
        torch.neg(x)
        print(before, time.monotonic_ns(), file=asked)
asked.close()
os.kill(os.getpid(), 9)
"""
_OFF_NS = 20_000


@pytest.mark.skipif(hook.load() is None, reason="there is no native code here")
def test_records_have_the_time_of_the_monotonic_clock(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLOCK)
    done = forked_opscope("run", "--no-page", "--no-stats", "train.py", "asked", cwd=tmp_path)
    assert done.returncode == -9, done.stderr
    (ring,) = tmp_path.rglob(RING_FILE)
    calls = [call for call in RingReader.open(ring).operators if call.op_type == "neg"]
    asked = [tuple(map(int, line.split())) for line in (tmp_path / "asked").open()]
    assert len(calls) == len(asked) == 4000
    for call, (before, after) in zip(calls, asked, strict=True):
        assert before - _OFF_NS <= call.start_ns <= call.end_ns <= after + _OFF_NS


THREADS = """
import os
import sys
import threading
import torch

ran = []

def work(number):
    torch.ones(2).cosh() if number % 2 else torch.ones(2).sinh()
    ran.append(threading.get_native_id())

def memory():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

def run(count):
    for number in range(count):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()

run(400)
before = memory()
run(4000)
print(memory() - before)
together = [threading.Thread(target=work, args=(number,)) for number in range(40)]
for thread in together:
    thread.start()
for thread in together:
    thread.join()
print(*ran)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(hook.load() is None, reason="there is no native code here")
def test_threads_that_have_ended_leave_nothing_but_their_records(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(THREADS)
    done = forked_opscope("run", "--no-page", "--no-stats", "train.py", cwd=tmp_path)
    assert done.returncode == -9, done.stderr
    grown, ran = done.stdout.splitlines()
    assert int(grown) < 4096, "KiB, of 4,000 threads"
    (ring,) = tmp_path.rglob(RING_FILE)
    found = [each for each in RingReader.open(ring).operators if each.op_type in ("sinh", "cosh")]
    assert sorted(each.thread for each in found) == sorted(map(int, ran.split()))
    assert all(each.finished for each in found)

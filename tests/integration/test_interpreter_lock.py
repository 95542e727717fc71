"""The interpreter's lock: operators that wait for other threads of Python come to their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.engines import needs_observer
from helpers.forked import forked_opscope as opscope

pytestmark = needs_observer

SCRIPT = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn

pool = ThreadPoolExecutor(1)
asked = []

def elsewhere(value):
    asked.append(value)
    return pool.submit(lambda: sum(range(1000))).result(timeout=30)

def hardshrink(x, lambd=0.5):
    elsewhere("kernel")
    return torch.where(x.abs() > lambd, x, 0)

library = torch.library.Library("aten", "IMPL")
library.impl("hardshrink", hardshrink, "CPU")

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        elsewhere("forward")
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        elsewhere("backward")
        return gradient * 2

def pack(tensor):
    elsewhere("pack")
    return tensor

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
model[0].weight.register_hook(lambda gradient: elsewhere("gradient") and None)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(4):
    optimizer.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        hidden = model(torch.randn(2, 4))
    try:
        hidden @ torch.randn(3, 3)
    except RuntimeError:
        elsewhere("raised")
    with torch.no_grad():
        torch.hardshrink(hidden)
    Own.apply(hidden).square().sum().backward()
    optimizer.step()
assert sorted(set(asked)) == sorted(
    {"kernel", "forward", "backward", "pack", "gradient", "raised"}), set(asked)

# Others run while small operators do, one after the other.
counted, over = 0, False
def count():
    global counted
    while not over:
        counted += 1
        time.sleep(0)
thread = threading.Thread(target=count)
thread.start()
x, until = torch.ones(4), time.monotonic() + 30
while counted <= 10 and time.monotonic() < until:
    x = x * 1.0
over = True
thread.join(timeout=30)
print("ended", counted > 10)
"""


@pytest.mark.parametrize("options", [[], ["--no-stats"], ["--no-record"]], ids=" ".join)
def test_who_waits_for_another_thread_ends(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = opscope("run", *options, "--run-dir", "run", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ended True\n"), done.stderr
    assert "internal error" not in done.stderr


GROWING = """
import threading, time
import torch

ticks, over = 0, False
def tick():
    global ticks
    while not over:
        time.sleep(0.001)
        ticks += 1
thread = threading.Thread(target=tick)
thread.start()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
operators = {
    "mul": lambda many: many[:, None] * many,
    "matmul": lambda many: many[:, None] @ many[None, :],
    "repeat": lambda many: many.repeat(len(many), 1),
    "cdist": lambda many: torch.cdist(many[:, None], many[:, None]),
}
shares = {}
for step in range(5):  # after the first their call sites are known
    model(torch.randn(2, 4)).sum().backward()
    for name, operator in operators.items():
        many = torch.ones(9000)
        before, began = ticks, time.monotonic()
        with torch.no_grad():
            operator(many)
        share = (ticks - before) / (time.monotonic() - began) / 1000
        shares[name] = max(share, shares.get(name, 0)) if step > 1 else 0
    optimizer.step()
over = True
thread.join()
print(*(name for name, share in shares.items() if share < 0.25))
"""


def test_other_threads_go_on_while_an_operator_makes_much_of_little(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GROWING)
    done = opscope("run", "--run-dir", "run", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr

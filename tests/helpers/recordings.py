"""Trainings that die in all kinds of ways, and what the recorder leaves of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

TRAIN = """
import ctypes, os, resource, shutil, signal, sys, threading, time
import torch
from torch import nn

how, folder = sys.argv[1], os.environ.get("FOLDER", ".")
torch.manual_seed(0)
step = 0


@torch.library.custom_op("ward::last_op", mutates_args=())
def last_op(x: torch.Tensor) -> torch.Tensor:
    if step == 3:
        die()
    return x.clone()


@last_op.register_fake
def _(x):
    return torch.empty_like(x)


torch.library.register_autograd("ward::last_op", lambda ctx, g: g)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        h = last_op(h)  # where it dies
        return self.fc2(h)


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        if how == "operator in backward":
            torch.mm(g, torch.ones(1, 1))  # of the script's own backward
        raise RuntimeError("in backward")


def wait_for_report():
    report = os.path.join(folder, "rank_0", "rdr", "report.json")
    for _ in range(400):
        if os.path.exists(report):
            return shutil.copytree(os.path.dirname(report), os.path.join(folder, "seen"))
        time.sleep(0.05)


def deadlock():
    lock = threading.Lock()
    lock.acquire()

    def release():
        wait_for_report()
        lock.release()

    threading.Thread(target=release, name="releases").start()
    lock.acquire()


def die():
    if how == "raise":
        raise ValueError("bad thing")
    if how == "exit with words":
        sys.exit("no data\\nleft")
    if how == "exec":
        os.execv("/bin/sh", ["sh", "-c", "exit 4"])
    if how == "native exit":
        ctypes.CDLL(None)._exit(9)
    if how == "shapes":
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    if how == "exit":
        sys.exit(7)
    if how == "_exit":
        os._exit(5)
    if how == "hang":
        deadlock()
    if how == "fault":
        ctypes.string_at(0)
    if how == "overflow":
        sys.setrecursionlimit(1 << 30)
        deep = []
        for _ in range(1 << 20):
            deep = [deep]
        repr(deep)
    if how == "memory":
        limit = int(open("/proc/self/statm").read().split()[0]) * 4096 + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        torch.ones(4 << 30)
    if how == "no memory left":
        limit = int(open("/proc/self/statm").read().split()[0]) * 4096 + (200 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        sys.kept = []
        while True:
            sys.kept.append(torch.ones(1 << 18))
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(10)


if how.startswith("handled"):
    code = 20 if how.endswith("20") else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
    how = "SIGTERM"
if how == "ignored":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
data = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(6)]
if how == "workers":
    data = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
for step, (x, y) in enumerate(data):
    out = net(x)
    if how.endswith("backward") and step == 3:
        out = Fails.apply(out)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if how == "thread" and step == 3:
        worker = threading.Thread(target=lambda: {}["missing"], name="worker")
        worker.start()
        worker.join()
    if how == "fork" and step == 3:
        child = os.fork()
        if not child:
            net(x)
            os.kill(os.getpid(), signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    if how == "ignored" and step == 3:
        os.kill(os.getpid(), signal.SIGTERM)
print("done", loss.item())
"""
"""It dies in step 3, inside the operator ward::last_op if in any."""


def recording(base: Path, rank: int = 0) -> Path:
    """Where the recording of a rank is."""
    return base / f"rank_{rank}" / "rdr"


def wait_for(path: Path, seconds: float = 60) -> None:
    """Wait until a file is there."""
    give_up = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < give_up, f"{path} does not come"
        time.sleep(0.02)


def written_report(folder: Path) -> dict[str, Any]:
    """What was exported, by whomever."""
    wait_for(folder / "report.json")
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found

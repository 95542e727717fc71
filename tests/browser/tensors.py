"""Trainings whose tensors are looked into: one that turns bad, its dump on two ranks, one live."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from helpers.dumps import write_dump_config
from helpers.forked import Started, forked_opscope
from opscope.read.reader import open_reader
from opscope.rundir.layout import run_key
from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket

TOKEN = "a-token-of-the-browser-tests-01"
BAD = 3
"""The step in which the training turns bad."""
TRAIN = f'''"""Attention over the places of an image; it goes wrong in step {BAD}."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.head = nn.Linear(8, 4)

    def forward(self, images):
        x = torch.relu(self.conv(images)).flatten(2).transpose(1, 2)
        chances = (x @ x.transpose(1, 2)).softmax(-1)
        return self.head((chances @ x).mean(1)).softmax(-1)


network = Net()
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
for step in range({BAD + 2}):
    chances = network(torch.randn(4, 3, 16, 16))
    if step == {BAD}:
        chances = chances * torch.tensor([[0.0], [1.0], [-1.0], [1.0]])
    loss = -chances[:, 0].log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
LIVE = '''"""A training that somebody holds."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for step in range(100_000):
    loss = network(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
CHANGED = (1, 3)
"""The element of the head's weight that the second rank has otherwise."""
ROWS, COLUMNS = 2500, 4000
"""A large tensor that takes the place of a small one."""
LONG = 500_000
"""The rows of another."""


class Tensors:
    """What the trainings wrote, a live one, and the server over them."""

    def __init__(self, folder: Path, own: Path) -> None:
        self.folder, self._own = folder, own
        self.library = Library([folder / "run", folder / "dump"])
        self._sock = listening_socket("127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self._sock.getsockname()[1]}"
        self._end = in_background(self.library, TOKEN, self._sock, Hub(self.library))
        self._training: Started | None = None
        self.run, self.dump = run_key(folder / "run"), run_key(folder / "dump")
        self.live = run_key(own / "live")
        self.client = httpx.Client(
            base_url=f"{self.address}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}
        )
        self.reader = open_reader(folder / "dump")

    def node(self, run: str, text: str, phase: str = "forward") -> int:
        """The id of the first node whose name has this text."""
        found = self.client.get(f"/runs/{run}/ranks/0/nodes", params={"text": text}).json()
        return next(node["id"] for node in found["nodes"] if node["phase"] == phase)

    def array(self, address: str, step: int = 2, rank: int = 0) -> np.ndarray:
        """The elements of a value of the dump."""
        return self.reader.value(address, step, rank).array()

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client.post(f"/runs/{self.live}{path}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text[:300]
        return answer.json()

    def until(self, happens: Callable[[dict[str, Any]], bool], seconds: float = 60.0) -> None:
        """Wait until the live training stands so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ranks = self.client.get(f"/runs/{self.live}/live").json().get("ranks")
            if ranks and happens(ranks[0]):
                return
            time.sleep(0.05)
        raise AssertionError("the training did not come to where it should")

    def end(self) -> None:
        """End what was started."""
        if self._training is not None:
            self._training.kill()
            self._training.wait(10)
        self.client.close()
        self._end()

    def start_live(self) -> None:
        """Start a training that waits before its first step."""
        (self._own / "live.py").write_text(LIVE)
        words = ["--server", self.address.removeprefix("http://"), "--wait"]
        words += ["--run-dir", str(self._own / "live"), str(self._own / "live.py")]
        words = ["-m", "opscope", "run", *words]
        log = self._own / "live.log"
        self._training = Started(*words, cwd=self._own, log=log, OPSCOPE_TOKEN=TOKEN)
        self.until(lambda rank: rank["state"] == "waiting")


def make_tensors(folder: Path) -> None:
    """A run that turns bad, and its dump, of which the second rank is a changed copy."""
    (folder / "train.py").write_text(TRAIN)
    config = write_dump_config(folder)
    words = ["--run-dir", folder / "run", "--dump", config, "--record"]
    done = forked_opscope("run", *words, folder / "train.py", cwd=folder)
    assert done.returncode == 3, done.stderr
    shutil.copytree(folder / "dump" / "rank_0", folder / "dump" / "rank_1")
    _change_second_rank(folder)
    _put_large(folder)


def _change_second_rank(folder: Path) -> None:
    (path,) = (folder / "dump" / "rank_1").rglob("2/Parameter.head_weight.*.npy")
    array = np.load(path)
    array[CHANGED] += 0.5
    np.save(path, array)


def _put_large(folder: Path) -> None:
    """The loss of step 2 becomes a large tensor, with NaN at one place and an outlier.

    That of step 1 becomes one of more rows than a browser has pixels for.
    """
    (path,) = (folder / "dump" / "rank_0").rglob("1/neg.Default_neg-op0.*output.0*.npy")
    np.save(path, np.arange(LONG * 2, dtype=np.float32).reshape(LONG, 2))
    (path,) = (folder / "dump" / "rank_0").rglob("2/neg.Default_neg-op0.*output.0*.npy")
    array = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    array[1234, 567] = np.nan
    array[2000, 3000] = 1e6
    np.save(path, array)

"""A real training that turns NaN, its dump, and a real server over both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.dumps import write_dump_config
from helpers.forked import forked_opscope
from helpers.shared import made_once
from opscope.rundir.layout import run_key
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket

TOKEN = "a-token-of-the-tests-0123456789"
SCRIPT = """
import json
import sys

import torch
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.out(x), -1)


network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Head())
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
facts = []
for step in range(12):
    p = network(torch.randn(16, 8))
    if step == 9:
        p = p * (p > 0.9999)
    loss = -torch.log(p[:, 0]).mean()  # line 27
    optimizer.zero_grad()
    loss.backward()
    norm = float(torch.stack([p.grad.norm() for p in network.parameters()]).norm())
    facts.append([step, loss.item(), norm])
    with open(sys.argv[1], "w") as file:
        json.dump(facts, file)
    optimizer.step()
"""


class Recorded:
    """What the training wrote, and what it says of itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "train.py"
        self.facts = json.loads((folder / "facts.json").read_text())
        self.run = run_key(folder / "run")
        self.dump = run_key(folder / "dump")


def _train(folder: Path) -> None:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = ["--run-dir", folder / "run", "--dump", write_dump_config(folder), "--write-run"]
    done = forked_opscope("run", *words, script, folder / "facts.json", cwd=folder)
    assert done.returncode == 3, done.stderr


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(made_once(tmp_path_factory, "served", _train))


@pytest.fixture(scope="session")
def address(recorded: Recorded) -> Iterator[str]:
    sock = listening_socket("127.0.0.1", 0)
    library = Library([recorded.folder / "run", recorded.folder / "dump"])
    end = in_background(library, TOKEN, sock)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    end()


class Asking:
    """Questions to the server, with the token."""

    def __init__(self, address: str) -> None:
        self.client = httpx.Client(
            base_url=f"{address}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}
        )

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        response = self.client.get(path, params=query or None)
        assert response.status_code == status, response.text[:400]
        return response.json()


@pytest.fixture(scope="session")
def ask(address: str) -> Asking:
    return Asking(address)

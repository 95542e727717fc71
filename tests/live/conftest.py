"""Real servers and real trainings, each in a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from helpers.described import check_live_answer
from helpers.forked import Started
from helpers.program import clean_environment
from opscope.commands import main
from opscope.errors import OpscopeError
from opscope.server.serve import listening_socket

TOKEN = "a-token-of-the-tests-0123456789"
OPSCOPE = (sys.executable, "-m", "opscope")
TRAIN = """
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
steps, turns_bad = int(sys.argv[1]), int(sys.argv[2])
network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
try:
    for step in range(steps):
        out = network(torch.randn(16, 8))
        loss = out.square().mean()
        if step == turns_bad:
            loss = loss * torch.log(loss * 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.005)
    print("trained", step + 1, [p.double().sum().item().hex() for p in network.parameters()])
finally:
    print("cleaned up", flush=True)
"""


def wait_for(happens: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `happens` gives, as soon as that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = happens()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds:g} s")


def typed(folder: Path, *words: str, **environ: str) -> tuple[int, str]:
    """The exit code of a command, and what it prints; in this process, as starting one is slow."""
    printed = io.StringIO()
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, OPSCOPE_TOKEN=TOKEN, **environ),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        code = main(words)
    return code, printed.getvalue()


class Process:
    """A program of opscope's under way; what runs Python is forked, as importing torch is slow."""

    process: Started | subprocess.Popen[bytes]

    def __init__(
        self, folder: Path, *words: str | Path, program: tuple[str, ...] = OPSCOPE, **env: str
    ) -> None:
        self.log = folder / f"{time.monotonic_ns()}.log"
        environ = clean_environment(OPSCOPE_TOKEN=TOKEN, **env)
        if program[0] == sys.executable:
            words = (*program[1:], *words)
            self.process = Started(*words, cwd=folder, log=self.log, **environ)
            return
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*program, *map(str, words)],
                cwd=folder,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def wait(self, seconds: float = 60) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


class Ranks:
    """The same program in several ranks, as torchrun starts it; each is forked."""

    def __init__(self, folder: Path, count: int, *words: str | Path, **env: str) -> None:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        place |= {"WORLD_SIZE": str(count), "TORCHELASTIC_RESTART_COUNT": "0"}
        place |= {"TORCHELASTIC_RUN_ID": f"{folder.name}-{time.monotonic_ns()}"} | env
        self.ranks = [
            Process(folder, *words, **place, RANK=str(rank), LOCAL_RANK=str(rank))
            for rank in range(count)
        ]

    @property
    def text(self) -> str:
        return "".join(rank.text for rank in self.ranks)

    def wait(self, seconds: float = 60) -> int:
        """0 if all of them end so."""
        return max(abs(rank.wait(seconds)) for rank in self.ranks)

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()


class Server:
    """`opscope serve`, and questions to it."""

    def __init__(self, folder: Path, ports: tuple[int, int] | None = None) -> None:
        self.folder = folder
        self.port, self.debugger_port = ports or (free_port(), free_port())
        words = ("--port", str(self.port), "--debugger-port", str(self.debugger_port))
        self.process = Process(folder, "serve", *words)
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api/v1",
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=100,
        )
        wait_for(lambda: "trainings connect" in self.process.text)

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = self.client.get(path, params=query or None)
        return self._checked("GET", path, answer, status)

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = self.client.post(path, json=body)
        return self._checked("POST", path, answer, status)

    def _checked(self, method: str, path: str, answer: httpx.Response, status: int) -> Any:
        assert answer.status_code == status, answer.text[:500]
        found = answer.json()
        if status == 200:
            check_live_answer(method, path, found)
        return found

    def live_runs(self) -> list[str]:
        return [run["id"] for run in self.get("/runs") if run["live"]]

    def control(self, run: str, verb: str, status: int = 200, **args: Any) -> Any:
        return self.post(f"/runs/{run}/control", status, verb=verb, **args)

    def ranks(self, run: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/runs/{run}/live")["ranks"]
        return found

    def until(self, run: str, state: str, seconds: float = 30.0) -> list[dict[str, Any]]:
        """The ranks, once all of them are in this state."""

        def settled() -> list[dict[str, Any]] | None:
            ranks = self.ranks(run)
            return ranks if ranks and all(rank["state"] == state for rank in ranks) else None

        found: list[dict[str, Any]] = wait_for(settled, seconds)
        return found


def free_port() -> int:
    """A port that nobody has; below those that the system gives to who asks for any."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with contextlib.suppress(OpscopeError), listening_socket("127.0.0.1", port):
            return port


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """Processes that end with the test."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server"))
    yield found
    found.process.kill()


@pytest.fixture
def train(tmp_path: Path, server: Server, started: list[Process]) -> Callable[..., Process]:
    """Starts the training under `opscope run --server`."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)

    def start(*options: str, steps: int = 100_000, bad: int = -1, **env: str) -> Process:
        address = f"127.0.0.1:{server.debugger_port}"
        words = ("run", "--server", address, *options, script, str(steps), str(bad))
        process = Process(tmp_path, *words, **env)
        started.append(process)
        return process

    return start


@pytest.fixture
def run_of(server: Server) -> Callable[[Process], str]:
    """The run that a training is, once it is connected."""

    def find(process: Process) -> str:
        def connected() -> str | None:
            assert process.process.poll() is None, process.text
            for run in server.live_runs():
                pids = [rank["pid"] for rank in server.ranks(run)]
                if process.process.pid in pids:
                    return run
            return None

        return str(wait_for(connected, 60))

    return find

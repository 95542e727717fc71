"""A real training that turns NaN, its dump, and one that goes on, in a real Chromium.

Without Chromium or without a built page the tests are skipped, and say what is missing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from helpers.dumps import write_dump_config
from helpers.forked import forked_opscope, launched
from helpers.program import clean_environment
from live.conftest import TOKEN as LIVE_TOKEN
from live.conftest import Process, Server
from opscope.rundir.layout import run_key
from opscope.server.app import PAGE
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket

try:
    from playwright import sync_api as playwright
except ImportError:
    playwright = None

TOKEN = "a-token-of-the-browser-tests-01"
PATIENCE_S = 60
PLACES = ("bad", "dump", "slow", "pair", "grown")
LAST = 9
"""The step in which the training turns NaN."""
LOSSES = '''"""Losses, written by hand."""


def nll(chances):
    picked = chances[:, 0]
    return -picked.log().mean()
'''
TRAIN = f'''"""A classifier that goes wrong in step {LAST}."""

import torch
from losses import nll
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
for step in range({LAST + 3}):
    chances = network(torch.randn(16, 8))
    if step == {LAST}:
        chances = chances * (chances > 0.9999)
    loss = nll(chances)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
HOSTILE_CLASS = "<img src=x onerror=document.title='owned'>"
HOSTILE_NAME = "a\"b'<script>alert(1)</script>&amp;😀"
SLOW = f'''"""Trains until a file appears, slowly; its modules have odd names."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
Odd = type({HOSTILE_CLASS!r}, (nn.Linear,), {{}})
network = nn.Sequential()
network.add_module({HOSTILE_NAME!r}, Odd(4, 4))
network.add_module("x" * 10_000, nn.Linear(4, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(3000):
    loss = network(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
    if Path(sys.argv[1]).exists():
        break
'''
PAIR = '''"""Two processes; the second divides by zero in step 2."""

import os

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(4):
    loss = network(torch.randn(8, 4)).square().mean()
    if os.environ["RANK"] == "1" and step == 2:
        loss = loss / torch.zeros(())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
GROWN = '''"""A training whose rate is far too high; in step 1 it masks NaN."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=30.0)
for step in range(60):
    loss = network(torch.randn(64, 4)).square().mean()
    if step == 1:
        torch.nan_to_num(torch.log(-torch.ones(3)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''


class Made:
    """What the trainings wrote, and the server over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "losses.py").write_text(LOSSES)
        (folder / "train.py").write_text(TRAIN)
        (folder / "slow.py").write_text(SLOW)
        config = write_dump_config(folder)
        words = ["--run-dir", folder / "bad", "--dump", config, "--write-run"]
        (folder / "pair.py").write_text(PAIR)
        (folder / "grown.py").write_text(GROWN)
        self.training = self._start_slow()
        done = forked_opscope("run", *words, folder / "train.py", cwd=folder)
        assert done.returncode == 3, done.stderr
        pair = launched("run", "--run-dir", folder / "pair", folder / "pair.py", cwd=folder)
        assert pair.returncode != 0, pair.stderr
        grown = forked_opscope(
            "run", "--run-dir", folder / "grown", folder / "grown.py", cwd=folder
        )
        assert grown.returncode == 3, grown.stderr
        keys = (run_key(folder / name) for name in PLACES)
        self.bad, self.dump, self.slow, self.pair, self.grown = keys
        self._wait_for(folder / "slow" / "run.json")
        self.library = Library([folder / name for name in PLACES])

    def add_later(self, folder: Path) -> tuple[str, Callable[[], None]]:
        """The id of a run that is not there yet, and what brings it."""
        place = folder / "later"

        def bring() -> None:
            shutil.copytree(self.folder / "bad", place)
            self.library.add(place)

        return run_key(place), bring

    def end_training(self) -> None:
        """Let the slow training finish."""
        (self.folder / "end").touch()
        assert self.training.wait(60) == 0

    def _start_slow(self) -> subprocess.Popen[bytes]:
        words = ["run", "--run-dir", self.folder / "slow", self.folder / "slow.py"]
        return subprocess.Popen(
            [sys.executable, "-m", "opscope", *map(str, words), str(self.folder / "end")],
            cwd=self.folder,
            env=clean_environment(),
            stderr=subprocess.DEVNULL,
        )

    def _wait_for(self, path: Path) -> None:
        end = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < end and self.training.poll() is None
            time.sleep(0.1)


@pytest.fixture(scope="session")
def made(browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    found = Made(tmp_path_factory.mktemp("looked-at"))
    yield found
    if found.training.poll() is None:
        found.training.kill()
        found.training.wait()


@pytest.fixture(scope="session")
def browser() -> Iterator[playwright.Browser]:
    chromium = shutil.which("chromium")
    if playwright is None:
        pytest.skip("playwright is not installed: pip install 'opscope[dev]'")
    if chromium is None:
        pytest.skip("there is no chromium: `make setup` installs it on Debian")
    if not (PAGE / "index.html").is_file():
        pytest.skip("the page is not built: `make setup` builds it where Node.js is")
    with playwright.sync_playwright() as started:
        words = ["--headless", "--no-sandbox", "--disable-gpu"]
        found = started.chromium.launch(executable_path=chromium, args=words)
        yield found
        found.close()


@pytest.fixture(scope="session")
def address(made: Made) -> Iterator[str]:
    sock = listening_socket("127.0.0.1", 0)
    end = in_background(made.library, TOKEN, sock)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    end()


class Looking:
    """A page of the browser, and what must not happen on it."""

    def __init__(self, page: playwright.Page, address: str, token: str = TOKEN) -> None:
        self.page = page
        self.address = address
        self.token = token
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._on_console)
        page.on("request", self._on_request)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))

    def _on_console(self, message: playwright.ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def _on_request(self, request: playwright.Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def forgive(self, text: str) -> None:
        """Forget what the browser logs of something that was provoked."""
        self.problems = [problem for problem in self.problems if text not in problem]

    def open(self, place: str) -> None:
        """Open a place of the page, as with the printed address."""
        mark = "&" if "?" in place else "?"
        self.page.goto(f"{self.address}{place}{mark}token={self.token}")

    def see(self, what: str, text: str | None = None) -> playwright.Locator:
        """Wait until something is there, with a text if one is given; the first of them."""
        found = self.page.locator(what)
        if text is not None:
            found = found.filter(has_text=text)
        found.first.wait_for()
        return found.first

    def wait(self, script: str) -> None:
        """Wait until an expression is true; the page itself may evaluate no text."""
        end = time.monotonic() + PATIENCE_S
        while not self.page.evaluate(script):
            assert time.monotonic() < end, f"{script} did not become true"
            self.page.wait_for_timeout(50)

    @classmethod
    @contextmanager
    def in_window(
        cls, browser: playwright.Browser, address: str, token: str = TOKEN
    ) -> Iterator[Self]:
        """A page in a window of its own; at the end nothing may have gone wrong on it."""
        context = browser.new_context(viewport={"width": 1280, "height": 720}, locale="en-GB")
        found = cls(context.new_page(), address, token)
        yield found
        context.close()
        assert found.problems == []
        assert found.elsewhere == [], "a request left the machine"


@pytest.fixture
def looking(browser: playwright.Browser, address: str) -> Iterator[Looking]:
    with Looking.in_window(browser, address) as found:
        yield found


@pytest.fixture(scope="module")
def server(
    browser: playwright.Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of its own process that waits for trainings."""
    found = Server(tmp_path_factory.mktemp("live"))
    yield found
    found.process.kill()


@pytest.fixture
def page(browser: playwright.Browser, server: Server) -> Iterator[Looking]:
    with Looking.in_window(browser, f"http://127.0.0.1:{server.port}", LIVE_TOKEN) as found:
        yield found


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Trainings that are ended at last."""
    found: list[Process] = []
    yield found
    for process in found:
        process.kill()

"""A real training that turns NaN, its dump, and one that goes on, in a real Chromium.

Without Chromium or without a built page the tests are skipped, and say what is missing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from browser.trainings import RUNS, Slow, make_runs
from helpers.shared import made_once
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


class Made:
    """What the trainings wrote, and what a server shows of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bad, self.dump, self.pair, self.grown = (run_key(folder / name) for name in RUNS)
        self.library = Library([folder / name for name in RUNS])

    def add_later(self, folder: Path) -> tuple[str, Callable[[], None]]:
        """The id of a run that is not there yet, and what brings it."""
        place = folder / "later"

        def bring() -> None:
            shutil.copytree(self.folder / "bad", place)
            self.library.add(place)

        return run_key(place), bring


@pytest.fixture(scope="session")
def made(browser: playwright.Browser, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(made_once(tmp_path_factory, "looked-at", make_runs))


@pytest.fixture(scope="session")
def slow(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slow]:
    found = Slow(tmp_path_factory.mktemp("slow"))
    made.library.add(found.path)
    yield found
    if found.process.poll() is None:
        found.process.kill()
        found.process.wait(10)


@pytest.fixture(scope="session")
def browser() -> Iterator[playwright.Browser]:
    # Debian's shell of it is the same engine without a desktop's windows: a third of the time.
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
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
        self._forgiven: tuple[str, ...] = ()
        self.elsewhere: list[str] = []
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._on_console)
        page.on("request", self._on_request)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))

    def _on_console(self, message: playwright.ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(self._forgiven):
            self.problems.append(message.text)

    def forgive_refusals(self) -> None:
        """The server refuses something on purpose here, which the browser logs in its own time."""
        self._forgiven = ("Failed to load resource",)
        self.problems = [each for each in self.problems if not each.startswith(self._forgiven)]

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
        """Wait until an expression is true; the page itself may evaluate no text.

        One that fails is not true yet: what it asks may not be there.
        """
        end = time.monotonic() + PATIENCE_S
        guarded = f"(() => {{ try {{ return ({script}) }} catch {{ return false }} }})()"
        while not self.page.evaluate(guarded):
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

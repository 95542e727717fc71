"""Makes the pictures of the docs: a real training, held at its fault, in Chromium.

pip install pillow
python docs/images/make.py [NAME ...]
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright import sync_api as playwright

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "examples" / "late_fault.py"
TOKEN = "a-token-of-the-pictures-01234567"
SIZE = {"width": 1280, "height": 720}
NODE = "Default/network-Classifier/features-AlexNet/conv1-Conv2d"


class Pictures:
    """The page in front of a training that waits."""

    def __init__(self, page: playwright.Page, wanted: list[str]) -> None:
        self.page = page
        self._wanted = wanted

    def see(self, what: str, text: str | None = None) -> playwright.Locator:
        found = self.page.locator(what)
        found = found if text is None else found.filter(has_text=text)
        found.first.wait_for(timeout=120_000)
        return found.first

    def take(self, name: str) -> None:
        self.page.mouse.move(640, 5)
        self.page.wait_for_timeout(1500)
        if not self._wanted or name in self._wanted:
            picture = Image.open(io.BytesIO(self.page.screenshot()))
            picture.quantize(128).save(HERE / f"{name}.png", optimize=True)

    def button(self, place: str, text: str) -> None:
        self.see(f"{place} button", text).click()


def walk(at: Pictures, start: Callable[[], None]) -> None:
    """The example of docs/example.md."""
    at.see(".empty", "Waiting")
    at.take("waiting")
    start()
    at.see(".question")
    at.take("question")
    at.page.get_by_role("button", name="Use them", exact=True).click()
    at.see(".control input").fill("8")
    at.button(".control", "Step")
    at.see(".holding", "step 7 has ended")
    at.button(".watchhead", "New")
    at.see(".editor label", "condition").locator("select").select_option("TL")
    at.button(".editright", "None")
    at.see(".editright b", "0 of")
    at.see(".nodesearch").fill("convolution")
    at.see(f"[data-tick='{NODE}/convolution-op0']").click()
    at.see(".nodesearch").fill("")
    at.see("input[name=max_gt]").fill("9.5")
    at.see(".watchname").fill("conv1 is large")
    at.see(".preview")
    at.take("watchpoint")
    at.button(".editor", "Cancel")
    at.button(".control", "Continue")
    at.see(".holding", "hit:")
    at.button(".side-left .tabs", "Model")
    at.see(".verdict.wrong")
    at.button(".verdict", "Line")
    at.take("page")
    at.button(".tabs", "Heat map")
    at.take("heat-map")
    at.button(".verdict", "Operator")
    at.button(".side-left .tabs", "Hits")
    at.see(".graphtools select").select_option("reached")
    at.take("graph")
    at.button(".verdict", "Why")
    at.take("story")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def await_server(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit("the server did not start")


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as started:
        environment = os.environ | {"OPSCOPE_TOKEN": TOKEN}
        opscope = [sys.executable, "-m", "opscope"]
        page, training = free_port(), free_port()
        ports = ["--port", page, "--debugger-port", training]
        server = subprocess.Popen([*opscope, "serve", *ports], cwd=folder, env=environment)
        trainings: list[subprocess.Popen[bytes]] = []
        try:
            await_server(int(page))

            def start() -> None:
                words = ["run", "--server", f"127.0.0.1:{training}", "--wait", str(SCRIPT)]
                trainings.append(subprocess.Popen([*opscope, *words], cwd=folder, env=environment))

            chromium = started.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            shown = chromium.new_page(viewport=SIZE, locale="en-GB")  # type: ignore[arg-type]
            shown.goto(f"http://127.0.0.1:{page}/?token={TOKEN}")
            walk(Pictures(shown, wanted), start)
            chromium.close()
        finally:
            for process in (*trainings, server):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main(sys.argv[1:])

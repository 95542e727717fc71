"""Makes the pictures of the docs: a real training, held at its fault, in Chromium.

python docs/images/make.py [NAME ...]
"""

from __future__ import annotations

import contextlib
import io
import json
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

import opscope
from opscope.rundir.layout import run_key

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "examples" / "late_fault.py"
TOKEN = "a-token-of-the-pictures-01234567"
SIZE = {"width": 1280, "height": 720}
NODE = "Default/network-Classifier/features-AlexNet/conv1-Conv2d"
WEIGHT = "Default/network-AlexNet/conv3-Conv2d/convolution-op0"
DUMP = {"iteration": "0-2", "dump_mode": 1, "kernels": [WEIGHT]}


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


def walk(at: Pictures, start: Callable[[], object]) -> None:
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


def follow_fault(at: Pictures) -> None:
    """The tensor in which it began, with those around it: docs/tensors.md."""
    at.button(".verdict", "Hide")
    at.button(".verdict", "Operator")
    at.see("[data-side='output:0'] button", "View").click()
    at.see(".looks [data-look=relations]").click()
    at.see(".relationslook")
    at.take("relations")


def compare_steps(at: Pictures, base: str, dump: Path) -> None:
    """A weight against that of the step before, in a dump."""
    (node,) = opscope.open(str(dump)).select_nodes(WEIGHT)
    at.page.goto(f"{base}/run/{run_key(dump)}?token={TOKEN}&step=2&node={node.id}")
    at.see("[data-side='input:1'] button", "View").click()
    at.see("select[aria-label=against]").select_option("p")
    at.see(".against [data-choice=difference].on")
    at.take("tensor")


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


class Programs:
    """Programs of opscope's in a folder, that end with this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"OPSCOPE_TOKEN": TOKEN}
        command = [sys.executable, "-m", "opscope", *words]
        self._started.append(subprocess.Popen(command, cwd=self.folder, env=environment))
        return self._started[-1]

    def serve(self, *words: str) -> str:
        """Start a server, and tell where its page is."""
        port = free_port()
        self.start(*words, "--port", port)
        await_server(int(port))
        return f"http://127.0.0.1:{port}"

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


def dumped(programs: Programs) -> Path:
    """Three steps of the AlexNet, one convolution of it."""
    dump, config = programs.folder / "dump", programs.folder / "dump.json"
    config.write_text(json.dumps({"common_dump_settings": DUMP | {"path": str(dump)}}))
    programs.start("run", "--dump", str(config), str(SCRIPT.with_name("alexnet.py"))).wait()
    return dump


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as started:
        programs = Programs(Path(folder))
        try:
            training = free_port()
            page = programs.serve("serve", "--debugger-port", training)
            words = ("run", "--server", f"127.0.0.1:{training}", "--wait", str(SCRIPT))
            chromium = started.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"),
                args=["--no-sandbox"],
            )
            shown = chromium.new_page(viewport=SIZE, locale="en-GB")  # type: ignore[arg-type]
            at = Pictures(shown, wanted)
            shown.goto(f"{page}/?token={TOKEN}")
            walk(at, lambda: programs.start(*words))
            follow_fault(at)
            dump = dumped(programs)
            compare_steps(at, programs.serve("view", str(dump), "--no-browser"), dump)
            chromium.close()
        finally:
            programs.end()


if __name__ == "__main__":
    main(sys.argv[1:])

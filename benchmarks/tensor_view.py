"""How long the page takes to open a tensor of 10^8 float32 elements, and how much memory.

python benchmarks/tensor_view.py [ELEMENTS] [--browser]

A dump with one such value is written, a server in a process of its own answers, and every question
of the tensor view is asked. With --browser a real Chromium opens it, scrolls its table, and zooms.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.dumps import write_dump_config
from opscope.rundir.layout import run_key

TOKEN = "a-token-of-the-benchmark-0123456"
TIMES = 5
VIEW = "view=value&value=output:0"
SCRIPT = """
import torch

weight = torch.nn.Parameter(torch.randn(4, 4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(2):
    loss = torch.relu(weight).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("/layout", {}),
    ("/spread", {}),
    ("/tile", {"rows": 150, "columns": 320}),
    ("/places", {}),
    ("/block", {"top": 5000, "left": 5000, "height": 64, "width": 32}),
    ("/statistics", {}),
    ("/histogram", {"bins": 80}),
    ("/histogram", {"bins": 80, "log": True}),
    ("/along", {"axis": 0, "count": 100}),
    ("/along", {"axis": 1, "count": 100}),
    ("/compared", {"against": "step:0"}),
]
OPENING = ("", "/layout", "/spread", "/tile")
"""What the page asks before it shows the heat map; the last two at the same time."""


def main() -> None:
    """Write, serve, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("elements", nargs="?", type=float, default=1e8)
    parser.add_argument("--browser", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="opscope-tensor-"))
    try:
        side = round(args.elements**0.5)
        dump = _write(folder, side)
        with _server(dump) as (address, pid):
            place = f"/runs/{run_key(dump)}/ranks/0/values/{_node(address, dump)}/output/0"
            before = _memory(pid)
            print(f"{side} x {side} float32, {side * side * 4 / 1e6:.0f} MB; median of {TIMES}")
            _ask_all(address, place)
            largest = _memory(pid)
            print(f"server: {before:.0f} MB before, {largest:.0f} MB after, without the file's map")
            if args.browser:
                _browse(address, run_key(dump), place)
                print(f"server after the browser: {_memory(pid):.0f} MB")
    finally:
        shutil.rmtree(folder)


def _write(folder: Path, side: int) -> Path:
    """A real dump, two of whose values are made large."""
    (folder / "train.py").write_text(SCRIPT)
    write_dump_config(folder, iteration="0-1", saved_data="tensor")
    words = [sys.executable, "-m", "opscope", "run", "--no-page", "--dump", "dump.json", "train.py"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    random = np.random.default_rng(0)
    for path in (folder / "dump").rglob("relu.*output.0*.npy"):
        path.unlink()
        large = np.lib.format.open_memmap(path, "w+", np.float32, (side, side))
        for row in range(0, side, 500):
            rows = min(500, side - row)
            large[row : row + rows] = random.standard_normal((rows, side), dtype=np.float32)
        large[side // 2, side // 3] = np.nan
        large.flush()
    return folder / "dump"


def _serve(dump: Path, port: Any) -> None:
    from opscope.server.library import Library
    from opscope.server.serve import listening_socket, serve

    sock = listening_socket("127.0.0.1", 0)
    port.value = sock.getsockname()[1]
    serve(Library([dump]), TOKEN, [sock])


@contextmanager
def _server(dump: Path) -> Iterator[tuple[str, int]]:
    context = multiprocessing.get_context("spawn")
    port = context.Value("i", 0)
    process = context.Process(target=_serve, args=(dump, port), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.05)
    time.sleep(1)
    try:
        yield f"http://127.0.0.1:{port.value}", process.pid or 0
    finally:
        process.terminate()
        process.join()


def _client(address: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=120)


def _node(address: str, dump: Path) -> int:
    path = f"/runs/{run_key(dump)}/ranks/0/nodes"
    found = _client(address).get(path, params={"text": "relu-op0"}).json()["nodes"]
    return next(int(node["id"]) for node in found if node["phase"] == "forward")


def _ask_all(address: str, place: str) -> None:
    client, opening = _client(address), 0.0
    for part, query in QUESTIONS:
        ask = partial(_ask, client, place + part, query)
        taken = [_timed(ask) for _ in range(TIMES)]
        size = len(ask())
        print(f"  {part or '(facts)':<12} {_words(query):<34} {_ms(taken)} {size / 1e3:8.0f} kB")
        if part in OPENING:
            opening += statistics.median(taken)
    print(f"  opening, one question after the other: {opening * 1e3:.0f} ms")


def _ask(client: httpx.Client, path: str, query: dict[str, Any]) -> bytes:
    response = client.get(path, params={"step": 1} | query)
    response.raise_for_status()
    return response.content


def _timed(act: Callable[[], Any]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _words(query: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in query.items())


def _ms(taken: list[float]) -> str:
    return f"{statistics.median(taken) * 1e3:7.0f} ms (most {max(taken) * 1e3:.0f})"


def _memory(pid: int) -> float:
    """Its own pages in megabytes: those of files that are mapped are the system's to take back."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e3


def _browse(address: str, run: str, place: str) -> None:
    from playwright.sync_api import sync_playwright

    node = place.split("/")[-3]
    base = f"{address}/run/{run}?step=1&node={node}&token={TOKEN}"
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"),
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"{base}&{VIEW}")
        page.locator(".tensorcanvas").wait_for()
        taken = [_timed(partial(_reopen, page)) for _ in range(TIMES)]
        print(f"browser: page and heat map in {_ms(taken)}")
        taken = [_opened(page, f"{base}&view=steps") for _ in range(TIMES)]
        print(f"browser: from View to heat map in {_ms(taken)}")
        page.goto(f"{base}&{VIEW}&tensor=look%3Dtable")
        page.locator(".tcell").first.wait_for()
        print(f"browser: frames while the table scrolls: {_frames(page)}")
        used = page.evaluate("performance.memory.usedJSHeapSize / 1e6")
        print(f"browser: {used:.0f} MB of JavaScript's memory")
        browser.close()


def _reopen(page: Any) -> None:
    page.reload()
    page.locator(".tensorcanvas").wait_for()


def _opened(page: Any, elsewhere: str) -> float:
    """How long the heat map takes once the page is there."""
    page.goto(elsewhere)
    view = page.locator("[data-side='output:0'] button", has_text="View")
    view.wait_for()
    page.wait_for_timeout(1000)

    def open_value() -> None:
        view.click()
        page.locator(".tensorcanvas").wait_for()

    return _timed(open_value)


def _frames(page: Any) -> str:
    """How long frames take while the table scrolls from its beginning to its end."""
    found = page.evaluate(
        """() => new Promise((done) => {
          const table = document.querySelector('.tensortable');
          const times = [];
          let last = performance.now();
          const step = (now) => {
            times.push(now - last);
            last = now;
            table.scrollTop += (table.scrollHeight - table.clientHeight) / 300;
            times.length < 300 ? requestAnimationFrame(step) : done(times.slice(1));
          };
          requestAnimationFrame(step);
        })"""
    )
    ordered = sorted(found)
    middle, far = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"median {middle:.1f} ms, 99 % within {far:.1f} ms, most {ordered[-1]:.1f} ms"


if __name__ == "__main__":
    main()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(f"(this process: {usage.ru_maxrss / 1e3:.0f} MB at most, {os.cpu_count()} cores)")

"""How long the page takes over a large run, and how much memory its server.

    python benchmarks/page.py [--nodes 50000] [--steps 2000] [--budget MIB] [--folder DIR]

Writes a run of 50,000 operators, half of them backward, and 2,000 steps with the real writer, in a
budget that has it thinned, serves it with `opscope view`, and opens it in Chromium: once with a
server that has just been started, and five times after that. *First useful view* is until verdict,
strip, tree and source are drawn; *scope* from the click on a scope of the tree, and on one of the
graph, until what is in it is drawn; those are timed by the page itself, since a click by the driver
of the browser takes about as long. The memory of the server that is not pages of files is taken at
its start, after the first view, after fifty steps were looked at in all views, and while two
hundred steps are asked for, each with scopes, nodes and a statistic by chance.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from long_run import write_run
from playwright import sync_api as playwright

from opscope.events import Frame, Node, Phase, Stack

TOKEN = "a-token-of-the-benchmarks-012345"
PER_BLOCK = 20
USEFUL = (
    "document.querySelector('.verdict .sentence') && document.querySelector('.strip canvas') && "
    "document.querySelector('[data-scope]') && "
    "document.querySelector('.srcrow, .sourceview, .empty')"
)
CLICKED = """([at, event, inner]) => new Promise((done) => {
  const start = performance.now();
  const ready = () => document.querySelector(inner);
  const end = () => done(performance.now() - start);
  const drawn = () => requestAnimationFrame(() => setTimeout(end));
  const watcher = new MutationObserver(() => ready() && (watcher.disconnect(), drawn()));
  watcher.observe(document.body, {childList: true, subtree: true, attributes: true});
  document.querySelector(at).dispatchEvent(new MouseEvent(event, {bubbles: true}));
})"""
"""Milliseconds from an event until something is there and drawn."""


def node_of(number: int) -> Node:
    """Blocks of forward operators, each followed by its backward ones."""
    block, place = divmod(number, PER_BLOCK)
    backward = place >= PER_BLOCK // 2
    scope = (
        f"Default/network-Net/stage{block // 100}-Stage/{block % 100}-Block/fc{place % 5}-Linear"
    )
    parameter = scope.replace("/", ".") + ".weight" if backward else ""
    stack = Stack(number // 4, (Frame("made.py", 1 + number // 40, "forward", True),))
    scope = f"Gradients/{scope}" if backward else scope
    node = Node(
        number,
        0,
        f"{scope}/addmm-op{place // 5}",
        "addmm",
        "aten.addmm.default",
        scope,
        "Linear",
        Phase.BACKWARD if backward else Phase.FORWARD,
        stack,
    )
    node.gradient_of = parameter
    return node


class Server:
    """`opscope view` over the run."""

    def __init__(self, run: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "opscope", "view", str(run), "--no-browser"],
            env=os.environ | {"OPSCOPE_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"http://\S+", line)
            if found:
                self.address = found.group()
                return
        raise SystemExit("the server did not start")

    def own_mib(self) -> float:
        """Memory that is not pages of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+)", status)
        assert found is not None
        return int(found.group(1)) / 1024


def until(page: playwright.Page, script: str, start: float) -> float:
    """Milliseconds until an expression is true and drawn."""
    while not page.evaluate(script):
        if time.perf_counter() - start > 60:
            raise SystemExit(f"{script} did not become true")
        time.sleep(0.005)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done(0)))")
    return 1000 * (time.perf_counter() - start)


def first_view(page: playwright.Page, address: str) -> float:
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    return until(page, USEFUL, start)


def open_scopes(page: playwright.Page) -> list[float]:
    """Open one scope of the tree after the other, each in the one before."""
    times = []
    for scope in (
        "Default/network-Net",
        "Default/network-Net/stage1-Stage",
        "Default/network-Net/stage1-Stage/7-Block",
        "Default/network-Net/stage1-Stage/7-Block/fc2-Linear",
        "Default/network-Net/stage2-Stage",
    ):
        row = f".treerow[data-scope='{scope}']"
        page.locator(row).wait_for()
        inner = f"[data-scope^='{scope}/'], .treerow.node[title^='{scope}/']"
        times.append(page.evaluate(CLICKED, [row, "click", inner]))
        if scope.endswith("Linear"):
            page.locator(".treerow[data-scope='Default/network-Net/stage1-Stage']").click()
    return times


def open_in_graph(page: playwright.Page, address: str) -> list[float]:
    """Open scopes of the graph; each is laid out by itself."""
    times = []
    page.goto(f"{address}&view=graph&scope=Default/network-Net")
    for scope in ("stage1-Stage", "stage1-Stage/5-Block", "stage1-Stage/5-Block/fc1-Linear"):
        box = f".gbox[data-box='s:Default/network-Net/{scope}']"
        page.locator(box).wait_for()
        inner = f".gbox[data-box^='s:Default/network-Net/{scope}/'], .crumbs [title$='{scope}']"
        times.append(page.evaluate(CLICKED, [box, "dblclick", inner]))
    return times


def wander(page: playwright.Page, address: str, steps: int) -> None:
    """Look at fifty steps, in turn in each view."""
    views = ("source", "heat", "graph", "steps")
    for number in range(50):
        step = number * steps // 50
        page.goto(f"{address}&view={views[number % 4]}&step={step}&node={number * 7}")
        page.locator("[data-scope]").first.wait_for()


def roam(server: Server, steps: int) -> list[float]:
    """Ask for two hundred steps in all views; the memory of the server after every fifty."""
    chance = random.Random(1)
    base, memory = server.address.partition("/run/")[0] + "/api/v1", []
    run = server.address.partition("/run/")[2].partition("?")[0]
    place, token = f"{base}/runs/{run}/ranks/0", {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=place, headers=token, timeout=120) as client:
        for number in range(200):
            step, node = chance.randrange(steps), chance.randrange(1000)
            stage = f"Default/network-Net/stage{chance.randrange(3)}-Stage"
            scope = chance.choice(["", stage, f"{stage}/{chance.randrange(100)}-Block"])
            stat = chance.choice(["max", "mean_abs", "l2", "zero_share", "nan"])
            where = {"scope": scope, "step": step}
            span = {"scope": scope, "stat": stat, "first": max(0, step - 300), "last": step}
            for path, query in (
                ("/tree", where),
                ("/graph", where),
                ("/heatmap", span),
                ("/nodes", {"text": f"{number % 100}-Block", "step": step}),
                (f"/nodes/{node}", {"step": step}),
                (f"/nodes/{node}/series", {}),
                ("/source", {"file": "made.py", "step": step}),
                ("/strip", {}),
            ):
                client.get(path, params=query).raise_for_status()
            if number % 50 == 49:
                memory.append(server.own_mib())
    return memory


def report(folder: Path, args: argparse.Namespace) -> None:
    run = folder / "run"
    start = time.perf_counter()
    write_run(run, args.nodes, args.steps, args.budget << 20, node_of)
    size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    print(f"run: {size / 2**20:.0f} MiB, written in {time.perf_counter() - start:.0f} s")
    server = Server(run)
    try:
        measure(server, args.steps)
    finally:
        server.process.kill()
        server.process.wait()


def measure(server: Server, steps: int) -> None:
    memory = [server.own_mib()]
    with playwright.sync_playwright() as started:
        words = ["--headless", "--no-sandbox", "--disable-gpu"]
        chromium = shutil.which("chromium") or shutil.which("chromium-headless-shell")
        browser = started.chromium.launch(executable_path=chromium, args=words)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"{server.address}&list=lines".replace("/run/", "/elsewhere/"))
        print(f"first useful view, server just started: {first_view(page, server.address):.0f} ms")
        memory.append(server.own_mib())
        views = [first_view(page, server.address) for _ in range(5)]
        print(f"first useful view, again: {spread(views)}")
        print(f"a scope of the tree: {spread(open_scopes(page))}")
        print(f"a scope of the graph: {spread(open_in_graph(page, server.address))}")
        wander(page, server.address, steps)
        memory.append(server.own_mib())
        browser.close()
    print("server memory, MiB: at start {:.0f}, one view {:.0f}, 50 steps {:.0f}".format(*memory))
    roaming = ", ".join(f"{mib:.0f}" for mib in roam(server, steps))
    print(f"server memory, MiB, after 50, 100, 150 and 200 further steps by chance: {roaming}")


def spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.0f} ms, largest {max(times):.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--budget", type=int, default=1024, help="MiB of rows")
    parser.add_argument("--folder", type=Path, help="where to write the run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        report(Path(folder), args)


if __name__ == "__main__":
    main()

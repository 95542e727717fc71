"""A real Jupyter kernel: what its cells show, and what becomes of the session."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client", reason="needs ipykernel")
pytest.importorskip("ipykernel")

SETUP = """import torch, opscope

def make():
    net = torch.nn.Linear(4, 3)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)

def train(net, optimizer, steps, bad=-1):
    for step in range(steps):
        out = net(torch.ones(5, 4))
        loss = (out - out).log().sum() if step == bad else out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, flush=True)
"""

LINE = 1 + SETUP.split("\n").index(next(x for x in SETUP.split("\n") if ".log()" in x))


class Notebook:
    """Runs cells, and keeps what they show."""

    def __init__(self, folder: Path) -> None:
        self._manager, self._client = jupyter_client.manager.start_new_kernel(
            kernel_name="python3", cwd=str(folder)
        )

    def run(self, code: str, interrupt_after: str = "") -> dict[str, str]:
        """All that a cell puts out, by kind; Ctrl-C comes once it has printed something."""
        shown: dict[str, str] = {}
        asked = self._client.execute(code)
        while True:
            message = self._client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return shown
            for name, text in _parts(kind, content):
                shown[name] = shown.get(name, "") + text
            if interrupt_after and interrupt_after in shown.get("stdout", ""):
                time.sleep(0.1)
                self._manager.interrupt_kernel()
                interrupt_after = ""

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _parts(kind: str, content: Any) -> Iterator[tuple[str, str]]:
    if kind == "stream":
        yield content["name"], content["text"]
    elif kind == "execute_result":
        yield from content["data"].items()
    elif kind == "error":
        yield "error", re.sub(r"\x1b\[[\d;]*m", "", "\n".join(content["traceback"]))


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JPY_SESSION_NAME", "/home/me/a try.ipynb")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("profile")))
        made = Notebook(tmp_path_factory.mktemp("notebook"))
        made.run(SETUP)
        yield made
        made.close()


def test_from_the_first_cell_to_the_next_run(notebook: Notebook) -> None:
    shown = notebook.run("net, optimizer = make()\nsession = opscope.start()\nsession")
    assert re.match(r"<opscope session, running, run .*/a_try-[\d-]+\w+>", shown["text/plain"])
    notebook.run("train(net, optimizer, 2)")
    shown = notebook.run("train(net, optimizer, 3, bad=1)")
    assert "NaN or Inf in step 3, rank 0: it began here" in shown["stderr"]
    assert f"  code      In[1]:{LINE}  loss = " in shown["stderr"]
    assert f"origin: In[1]:{LINE}\n" in shown["stderr"]
    assert shown["error"] == "opscope: a hit has ended training; the verdict is above"
    assert "stopped" in notebook.run("session")["text/plain"], "it ends with the hit"

    notebook.run("net, optimizer = make()\nopscope.start()")
    notebook.run("train(net, optimizer, 3)\nopscope.stop()")
    shown = notebook.run("run = opscope.open('last')\nrun")
    assert "3 steps" in shown["text/plain"], "no optimizer of the ended training is waited for"
    assert "<td>finished</td>" in shown["text/html"]
    shown = notebook.run("run.check('TL max_gt=-100')")
    assert shown["text/html"].count("look at what it is made of") == 1, "advice is given once"
    assert "<td>0-2</td>" in shown["text/html"]
    assert f"<td>In[1]:{LINE - 1}</td>" in shown["text/html"]


def test_what_ends_a_cell_does_not_end_the_session(notebook: Notebook) -> None:
    notebook.run("net, optimizer = make()\nsession = opscope.start()")
    again = notebook.run("session = opscope.start()")
    assert again["error"] == "opscope: a session is running already: call opscope.stop() first"
    assert "ValueError: mine" in notebook.run("raise ValueError('mine')")["error"]
    ended = notebook.run("train(net, optimizer, 100000)", interrupt_after="step 3")
    assert ended["error"].endswith("KeyboardInterrupt: ")
    notebook.run("before = session.capture.step\ntrain(net, optimizer, 2)")
    shown = notebook.run("print(session.running, session.capture.step - before)\nopscope.stop()")
    assert shown["stdout"] == "True 2\n"


def test_mistakes_are_said_in_a_line_each(notebook: Notebook) -> None:
    shown = notebook.run("opscope.start(steps='x', on_hit='nope')")
    assert [line.partition(" =")[0] for line in shown["error"].split("\n")] == [
        "opscope: opscope.start: steps",
        "opscope: opscope.start: on_hit",
    ]


def test_the_magics(notebook: Notebook) -> None:
    notebook.run("%load_ext opscope\nnet, optimizer = make()")
    notebook.run("%%opscope on_hit=log\ntrain(net, optimizer, 3, bad=1)")
    shown = notebook.run("%opscope_hits")
    assert shown["text/plain"].splitlines()[0].endswith(" hits")
    assert "<th>watchpoint</th>" in shown["text/html"]

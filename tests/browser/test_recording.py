"""A person looks at what trainings left that were killed: one process, and two ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import TOKEN, Looking, playwright
from browser.trainings import HOSTILE_CLASS
from helpers.forked import forked_opscope, forked_ranks
from helpers.recordings import TRAIN
from opscope.native.shared import NAME_SCOPE
from opscope.record.python_writer import PythonWriter
from opscope.record.ring import RING_FILE, Ring, Sizes
from opscope.rundir.layout import run_key
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket

ODD = TRAIN.replace("net = Net()", f"Net.__name__ = {HOSTILE_CLASS!r}\nnet = Net()")
LINE = 1 + TRAIN.splitlines().index("        h = last_op(h)  # where it dies")
PAIR = """
import os, signal, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
waits = Path("waits")
for step in range(4):
    net(torch.ones(2, 4)).sum().backward()
    if step == 3 and rank == 1:
        while not waits.exists() or not waits.read_text():
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(int(waits.read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 3:
        waits.write_text(str(os.getpid()))
    dist.all_reduce(net.weight.grad)
    optimizer.step()
"""


class Left:
    """What the trainings left, and a server over it."""

    def __init__(self, folder: Path) -> None:
        (folder / "train.py").write_text(ODD)
        (folder / "pair.py").write_text(PAIR)
        run = forked_opscope("run", "--run-dir", "run", "train.py", "SIGKILL", cwd=folder)
        assert run.returncode == -9, run.stderr
        (folder / "opscope.toml").write_text(f'[rdr]\npath = "{folder / "pair"}"\n')
        for done in forked_ranks([("run", "--no-stats", "pair.py")] * 2, folder):
            assert done.returncode == -9, done.stderr
        self.run, self.pair = folder / "run", folder / "pair"
        self.ring = self.run / "recorder" / "rank_0" / "rdr"
        self.alive = folder / "alive"
        self.alive.mkdir()
        self.written = Ring.in_file(self.alive / RING_FILE, Sizes())


@pytest.fixture(scope="module")
def left(
    browser: playwright.Browser, tmp_path_factory: pytest.TempPathFactory
) -> Left:  # the browser first: without one nothing needs to be trained
    return Left(tmp_path_factory.mktemp("left"))


@pytest.fixture(scope="module")
def address(left: Left) -> Iterator[str]:
    sock = listening_socket("127.0.0.1", 0)
    end = in_background(
        Library([left.run]), TOKEN, sock, recordings=[left.pair, left.ring, left.alive]
    )
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    end()


def asked(looking: Looking, path: str) -> Any:
    """What the server answers to this page."""
    answer = looking.page.request.get(f"{looking.address}/api/v1/recordings/{path}")
    assert answer.ok, answer.text()
    return json.loads(answer.text())


def point(looking: Looking, moment: float, row: int) -> tuple[float, float]:
    """Where a moment is on the screen, in a row of a timeline with one rank."""
    canvas = looking.see(".timelinecanvas canvas")
    box = canvas.bounding_box()
    assert box is not None
    start, end = (int(canvas.get_attribute(f"data-{name}") or 0) for name in ("start", "end"))
    across = (moment - start) / (end - start)
    return box["x"] + across * box["width"], box["y"] + 22 + 22 + 24 * row + 12


def test_the_list_of_runs_and_a_run_lead_there(looking: Looking, left: Left) -> None:
    looking.open("/")
    looking.see(".runtable a.chip", "How it ended").click()
    looking.see(".ending h2", "Killed from outside")
    assert f"/recording/{run_key(left.run)}" in looking.page.url
    looking.see(".topbar a.chip", "Open the run").click()
    banner = looking.see(".endedbanner").inner_text()
    assert "Killed from outside" in banner and "ward_last_op-op0" in banner
    assert f"train.py:{LINE}" in banner and "in flight" in banner
    looking.see(".endedbanner a", "How it ended").click()
    looking.see(".ending h2", "Killed from outside")


def test_it_says_how_it_ended_and_shows_all_that_is_left(looking: Looking, left: Left) -> None:
    looking.open(f"/recording/{run_key(left.run)}")
    ending = looking.see(".ending").inner_text()
    assert "Killed from outside\n\n(SIGKILL" in ending and "step 3" in ending
    assert f"Default/network-{HOSTILE_CLASS}/ward_last_op-op0" in ending.replace("\n", "")
    assert f"train.py:{LINE}" in ending and "h = last_op(h)  # where it dies" in ending
    looking.see(".operatorpanel .became.flight", "in flight")
    steps = looking.see("[data-panel='steps']")
    assert "step 2" in steps.inner_text()
    # Steps this quick may share one reading of it, and what stays the same has no line.
    assert "MiB" in steps.locator("[data-curve='memory']").inner_text()
    assert steps.locator("[data-curve='loss'] polyline").count() == 1
    batch = looking.see("[data-panel='batch'] tbody tr").inner_text()
    assert "f32[8, 16]" in batch
    first = looking.see("[data-panel='operators'] li")
    assert "in flight" in first.inner_text() and "ward_last_op-op0" in first.inner_text()
    looking.see("[data-panel='operators'] li:nth-child(4) button").click()
    looking.see("[data-panel='operators'] li.on:nth-child(4)")
    looking.see(".operatorpanel .opfacts", "finished")
    assert "after kill -9 there are none" in looking.see("[data-panel='stacks']").inner_text()
    assert "train.py" in looking.see("[data-panel='program']").inner_text()
    assert looking.page.title() == "run · opscope"


def test_a_click_chooses_an_operator_and_the_address_keeps_it(looking: Looking, left: Left) -> None:
    key = run_key(left.run)
    looking.open(f"/recording/{key}")
    looking.see(".operatorpanel[data-operator]")
    shown = asked(looking, f"{key}/timeline?columns=1000")
    boxes = shown["ranks"][0]["lanes"][0]["boxes"]
    single = [n for n, count in enumerate(boxes["count"]) if count == 1]
    longest = max(single[:-1], key=lambda n: boxes["end"][n] - boxes["start"][n])
    middle = (boxes["start"][longest] + boxes["end"][longest]) / 2
    looking.page.mouse.click(*point(looking, middle, 0))
    sequence = boxes["sequence"][longest]
    looking.see(f".operatorpanel[data-operator='{sequence}']")
    about = asked(looking, f"{key}/ranks/0/operators/{sequence}")
    assert about["name"] in looking.see(".operatorpanel .opname").inner_text()
    assert about["source"]["code"] in looking.see(".operatorpanel .endsource").inner_text()
    assert about["scope"] in looking.see(".operatorpanel .opfacts").inner_text()
    assert f"op=0%3A{sequence}" in looking.page.url
    looking.see(".operatorpanel button", "after").click()
    looking.see(f".operatorpanel[data-operator='{about['after']}']")
    looking.page.go_back()
    looking.see(f".operatorpanel[data-operator='{sequence}']")
    looking.see(".timelinecanvas").focus()
    looking.page.keyboard.press("ArrowLeft")
    # Which box is the one before depends on how many fit into the width of the page.
    looking.wait(f"document.querySelector('.operatorpanel')?.dataset.operator < {sequence}")
    looking.page.go_back()
    looking.see(f".operatorpanel[data-operator='{sequence}']")
    looking.page.reload()
    looking.see(f".operatorpanel[data-operator='{sequence}']")
    looking.see(".operatorpanel a.chip", "Its numbers in the run").click()
    looking.see(".details h2", about["name"].rpartition("/")[2])


def test_the_wheel_zooms_and_dragging_moves(looking: Looking, left: Left) -> None:
    looking.open(f"/recording/{run_key(left.run)}")
    canvas = looking.see(".timelinecanvas canvas")

    def span() -> tuple[int, int]:
        found = [int(canvas.get_attribute(f"data-{name}") or 0) for name in ("start", "end")]
        return found[0], found[1]

    start, end = span()
    x, y = point(looking, (start + end) / 2, 0)
    looking.page.mouse.move(x, y)
    looking.page.mouse.wheel(0, -600)
    looking.wait("location.search.includes('from=')")
    closer = span()
    assert closer[0] > start and closer[1] < end
    looking.page.mouse.down()
    looking.page.mouse.move(x + 100, y, steps=4)
    looking.page.mouse.up()
    looking.wait(f"document.querySelector('canvas').dataset.start < {closer[0]}")
    assert span()[1] - span()[0] == pytest.approx(closer[1] - closer[0], abs=4)
    looking.see(".timeline button", "everything").click()
    looking.wait("document.querySelector('canvas').dataset.start === '0'")
    looking.see(".timeline button", "last two steps").click()
    looking.wait(f"document.querySelector('canvas').dataset.end === '{end}'")


def test_many_operators_open_when_they_are_clicked(looking: Looking, left: Left) -> None:
    key = run_key(left.run)
    looking.open(f"/recording/{key}")
    looking.see(".timeline button", "everything").click()
    looking.wait("document.querySelector('canvas').dataset.start === '0'")
    end = int(looking.see("canvas").get_attribute("data-end") or 0)
    width = looking.page.evaluate("document.querySelector('canvas').clientWidth")
    shown = asked(looking, f"{key}/timeline?start=0&end={end}&columns={width}")
    boxes = shown["ranks"][0]["lanes"][0]["boxes"]
    many = max(range(len(boxes["count"])), key=lambda n: boxes["count"][n])
    assert boxes["count"][many] > 1
    looking.page.mouse.click(*point(looking, (boxes["start"][many] + boxes["end"][many]) / 2, 0))
    shown_ns = "(data => data.end - data.start)(document.querySelector('canvas').dataset)"
    looking.wait(f"{shown_ns} < {end // 4}")


def test_two_ranks_under_each_other_and_what_one_never_entered(
    looking: Looking, left: Left
) -> None:
    looking.open(f"/recording/{run_key(left.pair)}")
    missed = looking.see(".ending .missed").inner_text()
    assert "c10d_allreduce_ number 4" in missed
    assert "rank 0 waits in it, rank 1 never entered" in missed
    looking.see(".ranklabel", "rank 1")
    labels = looking.see(".lanelabels").inner_text().split("\n")
    assert [each for each in labels if each.startswith("rank")] == [
        "rank 0 Killed from outside",
        "rank 1 Killed from outside",
    ]
    assert sum(each.startswith("collectives of") for each in labels) == 2
    looking.see(".ranktabs button", "rank 0").click()
    looking.see(".operatorpanel .opname", "c10d_allreduce_")
    looking.see(".operatorpanel .opfacts", "number 4 of group")
    assert "at=0" in looking.page.url


def test_the_folder_of_a_rank_opens_alone_in_chinese_and_in_the_dark(
    looking: Looking, left: Left
) -> None:
    looking.page.emulate_media(color_scheme="dark")
    looking.open(f"/recording/{run_key(left.ring)}")
    looking.see(".ending h2", "Killed from outside")
    assert looking.page.locator(".topbar a.chip").count() == 0
    looking.see(".topbar button", "中文").click()
    looking.see(".ending h2", "被外部终止")
    looking.see("[data-panel='stacks'] h3", "所有线程的调用栈")
    dark = "getComputedStyle(document.querySelector('.ending')).backgroundColor"
    assert looking.page.evaluate(dark) == "rgb(21, 26, 32)"


def test_a_process_that_is_still_there_is_followed(looking: Looking, left: Left) -> None:
    left.written["step"] = 7
    looking.open(f"/recording/{run_key(left.alive)}")
    looking.see(".ending h2", "Still running")
    looking.see(".ending .where", "step 7")
    writer = PythonWriter()
    writer.attach(left.written)
    writer.enter(writer.name(NAME_SCOPE, "Default/network-Net"))
    left.written["step"] = 8
    looking.see(".ending .where", "step 8")
    looking.see(".ending .became.flight", "in flight")
    looking.see(".lanelabel", "main thread")


def test_an_address_that_leads_nowhere_says_so(looking: Looking, left: Left) -> None:
    looking.open("/recording/nothing.000000")
    looking.see(".empty", "there is no recording nothing.000000 here")
    looking.problems.clear()  # the browser tells of the 404

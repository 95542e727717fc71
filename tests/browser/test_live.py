"""The page in front of real trainings that are held, stepped and ended from it."""

from __future__ import annotations

from pathlib import Path

from browser.conftest import Looking
from live.conftest import Process, Ranks, Server, wait_for

TRAIN = '''"""Trains until it is ended; takes the logarithm of zero in step 6."""

import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
try:
    for step in range(100_000):
        chances = network(torch.randn(16, 8)).softmax(-1)
        if step == 6:
            chances = chances * 0
        loss = -chances[:, 0].log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.005)
finally:
    print("cleaned up", flush=True)
'''
PAIR = '''"""Two processes that train together; the second makes NaN in step 5."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
network = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
for step in range(100_000):
    loss = network(torch.randn(16, 8)).square().mean()
    if rank == 1 and step == 5:
        loss = loss / torch.zeros(())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
'''


def started(
    server: Server, processes: list[Process], *words: str | Path, **more: object
) -> Process:
    process = Process(server.folder, *words, **more)  # type: ignore[arg-type]
    processes.append(process)
    return process


def kept_value(server: Server, run: str, node: str, rank: int) -> list[float]:
    """The elements of a value as a rank has them."""
    found = server.post(f"/runs/{run}/value?rank={rank}", node=node, part="slice")
    return [float(element) for element in found["elements"]]


def held_at(page: Looking, text: str) -> None:
    page.see(".holding", text)
    page.see(".topbar .state-paused")


def test_from_the_waiting_page_to_the_fault_and_the_end(
    page: Looking, server: Server, processes: list[Process]
) -> None:
    """What the guide walks through, with the server restarted and the page reloaded on the way."""
    (server.folder / "train.py").write_text(TRAIN)
    page.open("/")
    page.see(".empty", "Waiting for a training")
    address = f"127.0.0.1:{server.debugger_port}"
    process = started(server, processes, "run", "--server", address, "--wait", "train.py")
    page.see(".question", "Use the recommended watchpoints?")
    page.see(".topbar .state-waiting")
    page.page.get_by_role("button", name="Use them", exact=True).click()
    page.see(".watchitem", "OO")

    page.see(".control input").fill("2")
    page.see(".control button", "Step").click()
    held_at(page, "step 1 has ended")
    page.see(".tabs button", "Model").click()
    page.see("[data-scope='Default']")

    page.page.reload()
    held_at(page, "step 1 has ended")
    assert page.page.locator(".question").count() == 0
    page.see(".control button", "Next operator").click()
    held_at(page, "randn")
    page.see(".control button", "Where it stands").click()
    page.see(".details h2", "randn")

    page.see(".tabs button", "Graph").click()
    page.see(".crumbs button", "all").click()
    page.see(".gbox[data-box='s:Default']").dblclick()
    page.see(".gbox[data-box='s:Default/network-Sequential']").dblclick()
    page.see(".gbox[data-box='s:Default/network-Sequential/1-ReLU']").dblclick()
    page.see(".gbox", "relu-op0").click(button="right")
    page.see(".graphbox .menu button", "Run to this operator").click()
    held_at(page, "1-ReLU/relu-op0")

    port, debugger_port = server.port, server.debugger_port
    server.process.kill()
    page.see(".offline", "does not answer")
    server.process = Server(server.folder, (port, debugger_port)).process
    page.wait("!document.querySelector('.offline')")
    wait_for(lambda: server.live_runs(), 60)  # the training comes back after the page
    page.forgive("Failed to load")  # while there was no server
    held_at(page, "1-ReLU/relu-op0")

    page.see(".control button", "Continue").click()
    held_at(page, "held, step 6 · hit:")
    page.see(".verdict.wrong", "NaN or Inf in step 6")
    page.see(".verdict.wrong", "train.py:")
    page.see(".verdict button", "Operator").click()
    page.see(".gbox.chosen.wrong", "log")
    page.see(".details h2", "log")
    page.see(".stack .frame", "train.py:")
    page.see(".verdict button", "Line").click()
    page.see(".srcrow.on", "log()")

    page.see(".verdict button", "Why").click()
    page.see(".story .onward button", "Continue").click()
    page.wait("!document.body.innerText.includes('held, step 6')")  # it may hold at the next hit
    page.see(".control button", "Stop").click()
    page.see(".control button", "End it").click()
    assert process.wait() == 130
    assert "cleaned up" in process.text
    page.see(".topbar .state-stopped")
    page.wait("!document.querySelector('.control')")


def test_a_page_counts_when_it_is_touched_and_shows_where_a_fault_began(
    page: Looking, server: Server, processes: list[Process]
) -> None:
    (server.folder / "train.py").write_text(TRAIN)
    address = f"127.0.0.1:{server.debugger_port}"
    started(server, processes, "run", "--server", address, "--wait", "train.py")
    (run,) = wait_for(lambda: server.live_runs(), 60)
    page.open(f"/run/{run}")
    page.see(".question")
    assert server.get(f"/runs/{run}/live")["watchers"] == 0
    page.page.get_by_role("button", name="Use them and continue", exact=True).click()
    wait_for(lambda: server.get(f"/runs/{run}/live")["watchers"] == 1)
    held_at(page, "held, step 6 · hit:")
    page.see(".details h2", "log")  # nothing was chosen yet
    assert "step=" not in page.page.url  # and the latest step is still followed
    page.page.close()
    wait_for(lambda: server.get(f"/runs/{run}/live")["watchers"] == 0)
    server.control(run, "terminate")
    wait_for(lambda: not server.live_runs())


def test_two_ranks_are_held_together(
    page: Looking, server: Server, processes: list[Process]
) -> None:
    (server.folder / "pair.py").write_text(PAIR)
    address = f"127.0.0.1:{server.debugger_port}"
    process = Ranks(server.folder, 2, "run", "--server", address, "--wait", "pair.py")
    processes += process.ranks
    (run,) = wait_for(lambda: server.live_runs(), 60)
    page.open(f"/run/{run}")
    page.page.get_by_role("button", name="Use them", exact=True).click()
    page.see(".holding", "rank 1: waiting")
    page.see(".control button", "Step").click()
    page.see(".holding", "rank 0: paused, step 0rank 1: paused, step 0")
    found = f"/runs/{run}/ranks/0/nodes?text=addmm-op0&phase=forward"
    node = wait_for(lambda: server.get(found)["nodes"])[0]  # rows are read a moment after a hold
    page.open(f"/run/{run}?view=value&node={node['id']}&value=output:0")
    page.see(".notheld button", "Keep").click()
    page.see(".notheld", "kept from the next time")
    page.see(".control button", "Step").click()
    page.see(".holding", "rank 0: paused, step 1rank 1: paused, step 1")
    page.page.reload()
    page.see("select[aria-label=against]").select_option("r1")
    page.see(".looks [data-look=statistics]").click()
    first, second = (kept_value(server, run, node["name"], rank) for rank in (0, 1))
    apart = max(abs(a - b) for a, b in zip(first, second, strict=True))
    assert apart > 0
    page.see(".apart", f"{apart:.3g}")
    page.see(".control button", "Next operator").click()
    page.see(".problem", "is for one rank")
    page.forgive("Failed to load")  # it was refused
    page.see(".control button", "Continue").click()
    page.see(".holding", "rank 0: paused, step 5rank 1: paused, step 5")
    page.see(".verdict button", "rank 1").click()
    page.see(".verdict.wrong", "began in div")
    page.see(".control button", "Stop").click()
    page.see(".control button", "End it").click()
    assert process.wait() != 0
    page.see(".topbar .state-stopped")
    page.wait("!document.querySelector('.control')")

"""The usage example of the online debugger's guide, step by step, on the page: docs/example.md."""

from __future__ import annotations

from pathlib import Path

from browser.conftest import Looking
from live.conftest import Process, Server

SCRIPT = Path(__file__).parents[2] / "examples" / "late_fault.py"
CONV1 = "Default/network-Classifier/features-AlexNet/conv1-Conv2d"


def test_from_the_start_to_the_fault(
    page: Looking, server: Server, processes: list[Process]
) -> None:
    # 1. The server is there, and waits.
    page.open("/")
    page.see(".empty", "Waiting for a training")
    # 2. The training script is started in a terminal.
    words = ("--server", f"127.0.0.1:{server.debugger_port}", "--wait", SCRIPT, "--black", "3")
    processes.append(Process(server.folder, "run", *words))
    # 3. A dialog asks whether the recommended watchpoints are wanted.
    page.see(".question", "Use the recommended watchpoints?")
    page.page.get_by_role("button", name="Use them", exact=True).click()
    page.see(".watchitem", "OO")
    # 4. The graph is shown.
    page.see(".control button", "Step").click()
    page.see(".holding", "step 0 has ended")
    page.see(".tabs button", "Graph").click()
    page.see(".gbox[data-box='s:Default']").dblclick()
    page.see(".gbox[data-box='s:Default/network-Classifier']")
    # 5. A watchpoint is set: a condition, a threshold, nodes ticked and unticked.
    page.see(".watchhead button", "New").click()
    page.see(".editor label", "condition").locator("select").select_option("TL")
    page.see(".editright button", "None").click()
    page.see(".editright b", "0 of")
    page.see(".nodesearch").fill("conv")
    page.see(f"[data-tick='{CONV1}/convolution-op0']").click()
    page.see(".editright b", "1 of")
    page.see("input[name=max_gt]").fill("0")
    page.see(".preview", "would have hit 1 times in the last 1 steps")
    page.see(".watchname").fill("conv1 is large")
    page.see(".editor button", "Create").click()
    page.see(".watchitem", "conv1 is large")
    page.see(".watchhead button", "Recheck").click()
    page.see(".rechecked .hititem", "conv1 is large")
    # 6. Training goes on until a watchpoint is hit.
    page.see(".control button", "Continue").click()
    page.see(".holding", "held, step 3 · hit:")
    page.see(".verdict.wrong", "0 / 0")
    page.see(".tabs button", "Hits").click()
    page.see(".hititem", "div turns sound inputs into").click()
    page.see(".details h2", "div-op0")
    page.see("[data-side='input:1']", "[16, 1, 1, 1]")
    page.see(".verdict button", "Operator").click()
    page.see(".gbox.chosen.wrong", "div-op0")
    page.see(".stack .frame", "late_fault.py")
    page.see(".stack [title^='Find all operators']").click()
    page.see(".side-left .item", "div-op0")
    page.see(".verdict button", "Why").click()
    page.see(".story", "divide by (std + eps)")
    # The script is mended; this training is not needed any more.
    page.see(".control button", "Stop").click()
    page.see(".control button", "End it").click()
    assert processes[0].wait() == 130
    page.see(".topbar .state-stopped")

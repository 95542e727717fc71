"""A training is held, stepped, looked into and ended from outside: real processes, real HTTP."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.program import clean_environment, opscope
from live.conftest import OPSCOPE, TOKEN, TRAIN, Process, Server, wait_for

Train = Callable[..., Process]
RunOf = Callable[[Process], str]


def test_the_walk_through(server: Server, train: Train, run_of: RunOf) -> None:
    """Wait, set watchpoints, step, next, to a node, look, go on, pause, end."""
    process = train("--wait")
    run = run_of(process)
    (rank,) = server.until(run, "waiting")
    assert rank["step"] == 0 and rank["reason"] == "before step 0"
    assert server.get(f"/runs/{run}/watchpoints") == []  # nobody has answered yet
    assert server.post(f"/runs/{run}/watchpoints", action="set", watch="recommended")

    server.control(run, "step", count=3)
    (rank,) = server.until(run, "paused")
    assert rank["step"] == 2 and rank["node"] is None

    server.control(run, "next")
    (rank,) = server.until(run, "paused")
    assert rank["step"] == 3 and "randn" in rank["node"]["name"]
    server.control(run, "to", node="2-Linear/addmm-op0")
    (rank,) = server.until(run, "paused")
    assert rank["node"]["name"].endswith("2-Linear/addmm-op0")
    where = {"node": "2-Linear/addmm-op0", "part": "facts"}
    assert server.post(f"/runs/{run}/value", **where)["shape"] == [16, 4]
    part = server.post(f"/runs/{run}/value", **where | {"part": "slice", "index": "0,:"})
    assert part["shape"] == [4] and len(part["elements"]) == 4
    given = server.post(f"/runs/{run}/value", **where | {"io": "input", "slot": 1})
    assert given["shape"] == [16, 16]

    server.control(run, "to", node="1-ReLU/relu-op0")  # it has run already in this step
    (rank,) = server.until(run, "paused")
    assert rank["node"] is None or rank["step"] == 3
    server.control(run, "continue")
    server.until(run, "running")
    server.control(run, "pause")
    (rank,) = server.until(run, "paused")
    step = rank["step"]
    weights = server.post(f"/runs/{run}/value", parameter="0.weight", part="slice", index="0,:3")
    server.control(run, "step")
    (rank,) = server.until(run, "paused")
    assert rank["step"] == step + 1
    after = server.post(f"/runs/{run}/value", parameter="0.weight", part="slice", index="0,:3")
    assert weights["elements"] != after["elements"]

    server.control(run, "terminate")
    assert process.wait() == 130
    assert "cleaned up" in process.text and "trained" not in process.text
    assert "Traceback" not in process.text
    assert "ended by a person" in server.get(f"/runs/{run}")["state"]


def test_what_was_recorded_can_be_asked_while_it_holds(
    server: Server, train: Train, run_of: RunOf
) -> None:
    process = train("--wait")
    run = run_of(process)
    server.control(run, "step", count=5)
    server.until(run, "paused")
    strip = server.get(f"/runs/{run}/ranks/0/strip")
    assert strip["steps"] == [0, 1, 2, 3, 4] and all(loss is not None for loss in strip["loss"])
    found = server.post(f"/runs/{run}/recheck", watch="TL max_gt=-1000000")
    assert found["step"] == 4 and found["hits"] and found["values"]
    assert server.post(f"/runs/{run}/recheck", watch="TL max_gt=1000000")["hits"] == []
    server.control(run, "step", count=2)
    server.until(run, "paused")
    wait_for(lambda: server.get(f"/runs/{run}/ranks/0/strip")["steps"] == list(range(7)))


def test_a_hit_holds_before_the_update_and_training_can_go_on(
    server: Server, train: Train, run_of: RunOf
) -> None:
    process = train("--on-hit", "pause", steps=60, bad=20)
    run = run_of(process)
    (rank,) = server.until(run, "paused", 60)
    assert rank["step"] == 20 and rank["hit"] and "hit" in rank["reason"]
    weights = server.post(f"/runs/{run}/value", parameter="0.weight", part="facts")
    assert weights["places"]["nan"] is None  # the update has not been made
    verdict = server.get(f"/runs/{run}/ranks/0/verdict")
    assert "began in log" in verdict["sentence"]
    server.control(run, "continue")
    (rank,) = server.until(run, "paused", 60)  # the next step has NaN as well
    assert rank["step"] == 21
    server.post(f"/runs/{run}/watchpoints", action="set", watch="none")
    server.control(run, "continue")
    assert process.wait() == 0 and "trained 60" in process.text


def test_watchpoints_change_while_it_runs(server: Server, train: Train, run_of: RunOf) -> None:
    process = train("--watch", "none")
    run = run_of(process)
    added = server.post(
        f"/runs/{run}/watchpoints", action="add", watch="TL max_gt=-1000000 op_type=relu"
    )
    (one,) = added
    wait_for(lambda: server.get(f"/runs/{run}/ranks/0/hits")["total"] > 0)
    changed = server.post(
        f"/runs/{run}/watchpoints", action="change", id=one["id"], parts={"enabled": False}
    )
    assert changed[0]["enabled"] is False
    assert server.post(f"/runs/{run}/watchpoints", action="remove", id=one["id"]) == []
    wrong = server.post(f"/runs/{run}/watchpoints", 400, action="add", watch="XX max_gt=1")
    assert "condition" in wrong["error"]
    server.control(run, "terminate")
    assert process.wait() == 130


def test_kept_values_are_those_of_the_moment(server: Server, train: Train, run_of: RunOf) -> None:
    process = train("--wait")
    run = run_of(process)
    server.control(run, "step")
    server.until(run, "paused")
    missing = server.post(f"/runs/{run}/value", 400, node="1-ReLU/relu-op0")
    assert "not kept" in missing["error"]
    server.post(f"/runs/{run}/keep", nodes=["*relu-op0", "Default/optimizer-SGD"])
    server.control(run, "step")
    server.until(run, "paused")
    facts = server.post(f"/runs/{run}/value", node="1-ReLU/relu-op0", part="facts")
    row = server.get(f"/runs/{run}/ranks/0/nodes", text="1-ReLU/relu-op0", step=1)["nodes"][0]
    assert facts["places"]["max"]["value"] == pytest.approx(row["max"])
    # An operator that writes in place: its input was copied before, its output after.
    name = "Default/optimizer-SGD/add_-op0"
    before = server.post(f"/runs/{run}/value", node=name, io="input", slot=0, part="slice")
    after = server.post(f"/runs/{run}/value", node=name, io="output", slot=0, part="slice")
    assert before["elements"] != after["elements"]
    kept = {(value["name"], value["io"]) for value in server.get(f"/runs/{run}/kept")}
    assert (name, "input") in kept and (name, "output") in kept


def test_two_trainings_at_once(server: Server, train: Train, run_of: RunOf) -> None:
    first, second = train("--wait"), train("--wait")
    one, other = run_of(first), run_of(second)
    assert one != other
    server.control(one, "step", count=2)
    assert server.until(one, "paused")[0]["step"] == 1
    assert server.ranks(other)[0]["state"] == "waiting"


def test_commands_of_the_terminal(
    server: Server, train: Train, run_of: RunOf, tmp_path: Path
) -> None:
    process = train("--wait")
    run = run_of(process)
    address = f"127.0.0.1:{server.port}"

    def ctl(*words: str, code: int = 0) -> str:
        done = opscope(
            *("ctl", run, "--server", address, *words), cwd=tmp_path, OPSCOPE_TOKEN=TOKEN
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert "waiting" in ctl("status")
    assert "condition=OO" in ctl("watch", "recommended")
    ctl("step", "2")
    server.until(run, "paused")
    assert "paused, step 1" in ctl("status")
    assert json.loads(ctl("status", "--json"))["ranks"][0]["step"] == 1
    assert "elements" in ctl("parameter", "0.bias", "0:2")
    assert "there is no node" in ctl("to", "nowhere", code=2)
    assert "values checked" in ctl("recheck")
    ctl("terminate")
    assert process.wait() == 130


def test_the_variables_of_mindspore_connect(
    server: Server, started: list[Process], tmp_path: Path, run_of: RunOf
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    process = Process(
        tmp_path,
        *("run", "train.py", "3", "-1"),
        ENABLE_MS_DEBUGGER="1",
        MS_DEBUGGER_PORT=str(server.debugger_port),
    )
    started.append(process)
    run = run_of(process)
    assert server.until(run, "waiting")
    server.control(run, "continue")
    assert process.wait() == 0 and "trained 3" in process.text


def test_an_attached_terminal(server: Server, train: Train, run_of: RunOf, tmp_path: Path) -> None:
    """Commands from a pipe: each answer is there, and what is typed wrongly is one line."""
    process = train("--wait")
    run = run_of(process)
    server.until(run, "waiting")
    words = [
        "where",
        "watch recommended",
        "keep *relu-op0",
        "step 2",
        "nonsense",
        "to nowhere",
        "stats 1-ReLU/relu-op0",
        "print p:0.bias 0:3",
        "previous p:nowhere",
        "recheck TL max_gt=1000000",
        "hits",
        "terminate",
        "quit",
    ]
    done = subprocess.run(
        [*OPSCOPE, "attach", run, "--server", f"127.0.0.1:{server.port}"],
        input="\n".join(words) + "\n",
        env=clean_environment(OPSCOPE_TOKEN=TOKEN),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for expected in ("waiting, step 0", "condition=OO", "nonsense is no command", "shape      [3]"):
        assert expected in done.stdout, done.stdout
    assert 'there is no node "nowhere"' in done.stdout and "no hits" in done.stdout
    assert "there is no parameter nowhere" in done.stdout and "values checked" in done.stdout
    assert process.wait() == 130


@pytest.mark.long
def test_tab_completes_names_at_a_terminal(
    server: Server, train: Train, run_of: RunOf, tmp_path: Path
) -> None:
    process = train("--wait")
    run = run_of(process)
    server.until(run, "waiting")
    server.control(run, "step", count=1)
    server.until(run, "paused")
    words = [*OPSCOPE, "attach", run, "--server", f"127.0.0.1:{server.port}"]
    environ = clean_environment(OPSCOPE_TOKEN=TOKEN, TERM="xterm")
    main, terminal = pty.openpty()
    shell = subprocess.Popen(
        words, stdin=terminal, stdout=terminal, stderr=terminal, env=environ, cwd=tmp_path
    )
    os.close(terminal)
    try:
        seen = read_until(main, "step 0 has ended)")
        assert "(opscope) " in seen and "\\n" not in seen
        (name,) = [
            node["name"]
            for node in server.get(f"/runs/{run}/ranks/0/nodes", text="relu-op0")["nodes"]
            if node["phase"] == "forward"
        ]
        begin = name[: name.index("relu")]
        os.write(main, f"stats {begin}\t".encode())
        assert name in read_until(main, "relu-op0")
        os.write(main, b"\x15stats 1-ReLU/relu\t")
        read_until(main, name)
        os.write(main, b"\x15terminate\nquit\n")
        assert shell.wait(30) == 0
    finally:
        shell.kill()
        os.close(main)
    assert process.wait() == 130


def read_until(descriptor: int, text: str) -> str:
    """Read from a terminal until this has appeared."""
    seen, end = "", time.monotonic() + 30
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], end - time.monotonic())
        assert ready, f"{text!r} is not in {seen!r}"
        seen += os.read(descriptor, 4096).decode()
    return seen


def test_a_plain_import_connects_too(
    server: Server, started: list[Process], tmp_path: Path, run_of: RunOf
) -> None:
    (tmp_path / "plain.py").write_text(f"import opscope\n{TRAIN}")
    process = Process(
        tmp_path,
        *("plain.py", "3", "-1"),
        program=(sys.executable,),
        ENABLE_MS_DEBUGGER="True",
        MS_DEBUGGER_PORT=str(server.debugger_port),
    )
    started.append(process)
    run = run_of(process)
    assert server.until(run, "waiting")
    server.control(run, "continue")
    assert process.wait() == 0 and "trained 3" in process.text

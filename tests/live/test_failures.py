"""What happens when a server, a client or a rank goes away: training goes on, no hit is lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from live.conftest import TOKEN, TRAIN, Process, Server, free_port, wait_for

Train = Callable[..., Process]
RunOf = Callable[[Process], str]


def start(folder: Path, server: Server, started: list[Process], *words: str) -> Process:
    (folder / "train.py").write_text(TRAIN)
    address = f"127.0.0.1:{server.debugger_port}"
    process = Process(folder, "run", "--server", address, *words)
    started.append(process)
    return process


def test_a_server_that_dies_while_training_holds_lets_it_go_on(
    tmp_path: Path, started: list[Process]
) -> None:
    server = Server(tmp_path)
    started.append(server.process)
    process = start(tmp_path, server, started, "--wait", "--patience", "3", "train.py", "40", "-1")
    wait_for(server.live_runs, 60)
    (run,) = server.live_runs()
    server.until(run, "waiting")
    server.process.kill()
    assert process.wait(60) == 0 and "trained 40" in process.text


def test_a_server_that_comes_back_is_found_again(tmp_path: Path, started: list[Process]) -> None:
    server = Server(tmp_path)
    started.append(server.process)
    process = start(tmp_path, server, started, "train.py", "100000", "-1")
    wait_for(server.live_runs, 60)
    server.process.kill()
    again = Server(tmp_path, (server.port, server.debugger_port))
    started.append(again.process)
    (run,) = wait_for(again.live_runs, 30)
    again.control(run, "pause")
    (rank,) = again.until(run, "paused")
    assert rank["pid"] == process.process.pid
    again.control(run, "terminate")
    assert process.wait() == 130


@pytest.mark.long
def test_no_server_at_the_start_is_said_once_and_found_later(
    tmp_path: Path, started: list[Process]
) -> None:
    ports = free_port(), free_port()
    (tmp_path / "train.py").write_text(TRAIN)
    words = ("run", "--server", f"127.0.0.1:{ports[1]}", "train.py", "100000", "-1")
    process = Process(tmp_path, *words)
    started.append(process)
    wait_for(lambda: "no server answers" in process.text, 60)
    server = Server(tmp_path, ports)
    started.append(server.process)
    (run,) = wait_for(server.live_runs, 30)
    server.control(run, "terminate")
    assert process.wait() == 130
    assert process.text.count("no server answers") == 1


@pytest.mark.long
def test_holds_without_anybody_end_after_their_patience(
    server: Server, train: Train, run_of: RunOf
) -> None:
    """One that a person asked for lets training go on; one at a hit does what a hit does alone."""
    asked = ("--wait", "--watch", "recommended", "--on-hit", "pause", "--patience", "2")
    process = train(*asked, steps=100, bad=10)
    run_of(process)
    assert process.wait(60) == 3
    assert "nobody was there for 2 s: training goes on" in process.text
    assert "nobody was there to say how" in process.text and "cleaned up" in process.text


@pytest.mark.long
def test_somebody_who_looks_makes_a_hit_hold_until_they_are_killed(
    server: Server, train: Train, run_of: RunOf, started: list[Process], tmp_path: Path
) -> None:
    """Without `--on-hit`: stop where nobody looks, hold where somebody does."""
    process = train("--patience", "4", steps=3000, bad=600)
    run = run_of(process)
    attach = f"{sys.executable} -m opscope attach {run} --server 127.0.0.1:{server.port}"
    client = Process(tmp_path, f"sleep 600 | {attach}", program=("sh", "-c"))
    started.append(client)
    wait_for(lambda: "paused, step 600" in client.text, 60)
    time.sleep(6)  # longer than its patience: but somebody is there
    (rank,) = server.ranks(run)
    assert rank["state"] == "paused" and rank["step"] == 600 and rank["hit"]
    client.kill()
    assert process.wait(60) == 3  # they have gone


def test_a_rank_that_is_killed_is_shown_as_dead(
    server: Server, train: Train, run_of: RunOf
) -> None:
    process = train()
    run = run_of(process)
    os.kill(process.process.pid, signal.SIGKILL)
    server.until(run, "dead")
    assert "not connected" in server.control(run, "pause", 400)["error"]
    wait_for(lambda: "killed" in server.get(f"/runs/{run}")["state"])


@pytest.mark.parametrize("token", ["", "wrong-token-wrong-token"])
def test_trainings_need_the_token(server: Server, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    place = f"ws://127.0.0.1:{server.debugger_port}/training"
    refused = pytest.raises((ConnectionClosed, InvalidStatus))
    with refused, connect(place, additional_headers=headers) as socket:
        socket.recv(timeout=5)


@pytest.mark.parametrize(
    "message",
    ["", "[]", "{}", "no json", '{"kind": "hello", "version": 99}', '{"kind": 3}', "[" * 10000],
)
def test_malformed_greetings_are_refused(server: Server, message: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    place = f"ws://127.0.0.1:{server.debugger_port}/training"
    with connect(place, additional_headers=headers) as socket:
        socket.send(message)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
    assert server.get("/about")["api"] == "1"

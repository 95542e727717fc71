"""Ten thousand commands in a row: every one is answered, and the training is none the worse."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from live.conftest import Process, Server

COMMANDS = 10_000
RELU = "1-ReLU/relu-op0"


class Commander:
    """Commands by chance, with what may come of each."""

    def __init__(self, server: Server, run: str) -> None:
        self._server, self._run = server, run
        self._chance = random.Random(0)
        self.done: Counter[str] = Counter()
        self._commands: list[tuple[str, Callable[[], Any], tuple[int, ...]]] = [
            ("status", lambda: self._get("live"), (200,)),
            ("step", lambda: self._control("step", count=self._chance.randrange(1, 4)), (200,)),
            ("next", lambda: self._control("next"), (200,)),
            ("to", lambda: self._control("to", node=RELU), (200, 404)),
            ("continue", lambda: self._control("continue"), (200,)),
            ("pause", lambda: self._control("pause"), (200,)),
            ("to nowhere", lambda: self._control("to", node="nowhere"), (404,)),
            ("nonsense", lambda: self._control("nonsense"), (400,)),
            ("current", lambda: self._get("current"), (200, 400)),
            ("watch", lambda: self._post("watchpoints", action="set", watch="TL max_gt=9"), (200,)),
            ("unwatch", lambda: self._post("watchpoints", action="set", watch="none"), (200,)),
            ("keep", lambda: self._post("keep", nodes=[RELU, "*addmm*", "p:0.bias"]), (200,)),
            ("keep none", lambda: self._post("keep", nodes=[]), (200,)),
            ("kept", lambda: self._get("kept"), (200,)),
            ("value", lambda: self._post("value", node=RELU, part="slice"), (200, 400, 404)),
            ("parameter", lambda: self._post("value", parameter="0.bias"), (200,)),
            ("before", lambda: self._post("value", parameter="0.bias", previous=True), (200, 400)),
            ("parameters", lambda: self._get("parameters"), (200,)),
        ]

    def give(self) -> None:
        name, command, allowed = self._chance.choice(self._commands)
        answer = command()
        assert answer.status_code in allowed, f"{name}: {answer.text[:300]}"
        self.done[name] += 1

    def _get(self, what: str) -> Any:
        return self._server.client.get(f"/runs/{self._run}/{what}")

    def _post(self, what: str, **body: Any) -> Any:
        return self._server.client.post(f"/runs/{self._run}/{what}", json=body)

    def _control(self, verb: str, **args: Any) -> Any:
        return self._post("control", verb=verb, **args)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_commands(
    server: Server, train: Callable[..., Process], run_of: Callable[[Process], str]
) -> None:
    process = train("--wait", "--budget", "64MiB", steps=10_000_000)
    run = run_of(process)
    server.until(run, "waiting")
    commander = Commander(server, run)
    early = 0
    for number in range(COMMANDS):
        commander.give()
        if number == COMMANDS // 5:
            early = resident(process.process.pid)
    assert min(commander.done.values()) > COMMANDS // 40
    assert resident(process.process.pid) - early < 64 << 20
    server.control(run, "terminate")
    assert process.wait() == 130 and "Traceback" not in process.text
    assert "Traceback" not in server.process.text


def resident(pid: int) -> int:
    """Bytes of memory that a process takes."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")

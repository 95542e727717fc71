"""What it costs a training to be connected to a server, and to be followed by a page.

    python benchmarks/live.py [--workload gpt|tiny_gpt …] [--rounds 30] [--seconds 2]

One process trains, watched as by `opscope run`. In each round it does the same number of steps not
connected, connected and idle, and while another process follows it as a page does (its stream of
changes, the strip and the list of nodes once a second), in an order that changes. What is compared
is the processor time of the training process, all of its threads included, with that of the same
round when not connected. torch computes in one thread: with one for each core, all wait actively
for the one that the server or the page has taken the core from, and that time is not opscope's.
Printed are the median of these ratios, its 95 % confidence interval by resampling the rounds, and
the bounds that they are to stay within.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import workloads
from programs import facts

from opscope.access_token import TOKEN_VARIABLE
from opscope.commands.server_client import ServerClient
from opscope.live.control import Live
from opscope.session import Session, begin
from opscope.settings.run import load_run_settings

ALONE, IDLE, STREAMING = "not connected", "connected and idle", "streaming to a page"
BOUNDS = {IDLE: 1.02, STREAMING: 1.05}
_SETTLE_STEPS = 3
_RESAMPLED = 2000
_PATIENCE_S = 60.0


class Connection:
    """The link of this training, which can be taken away and given back."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._arguments: tuple[Any, ...] = ()
        self._connect = Live.connect
        connection = self

        def noted(live: Live, *arguments: Any) -> None:
            connection._live, connection._arguments = live, arguments
            connection._connect(live, *arguments)

        Live.connect = noted  # type: ignore[method-assign]

    def set(self, wanted: bool) -> None:
        """Be connected or not, and wait until it is so."""
        assert self._live is not None and self._live._link is not None
        link = self._live._link
        if wanted and not link.is_alive():
            self._connect(self._live, *self._arguments)
        if not wanted and link.is_alive():
            link.end()
        link = self._live._link
        _wait(lambda: link.connected.is_set() == wanted)


class Page:
    """A process that follows the run as a page does, while it is wanted."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None

    def set(self, wanted: bool) -> None:
        """Follow or not."""
        if wanted and self._process is None:
            words = [sys.executable, __file__, "--follow", self._server]
            self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
            assert self._process.stdout is not None
            self._process.stdout.readline()  # it has begun
        if not wanted and self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def follow(server: str) -> None:
    """What a page asks for while it is open."""
    with ServerClient(server) as client:
        run = client.find_run("last")
        stream = client.lines(f"/runs/{run}/events", watching="true")
        print("following", flush=True)
        asked = 0.0
        for _ in stream:
            if time.monotonic() - asked > 1:
                asked = time.monotonic()
                client.get(f"/runs/{run}/ranks/0/strip")
                client.get(f"/runs/{run}/ranks/0/nodes", count=50)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """A server; where its page is, and where trainings connect."""
    ports = [str(port) for port in _free_ports()]
    words = [sys.executable, "-m", "opscope", "serve", "--port", ports[0]]
    server = subprocess.Popen([*words, "--debugger-port", ports[1]], cwd=folder, stderr=-3)
    try:
        yield f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"
    finally:
        server.kill()
        server.wait()


def measure(workload: str, rounds: int, seconds: float) -> dict[str, Any]:
    """The ratios of all rounds."""
    connection, chance = Connection(), random.Random(0)
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (server, trainings):
        flags = {"server": trainings, "run_dir": f"{name}/run", "on_hit": "log"}
        settings = load_run_settings(flags, {}, Path(name))
        session = begin(lambda: Session(settings, workload))
        torch.set_num_threads(1)
        step = workloads.make(workload)
        page = Page(server)
        for _ in range(5):
            step()
        connection.set(True)
        count = _steps_in(step, seconds)
        times: dict[str, list[float]] = {ALONE: [], IDLE: [], STREAMING: []}
        for _ in range(rounds):
            for variant in chance.sample(list(times), len(times)):
                connection.set(variant != ALONE)
                page.set(variant == STREAMING)
                times[variant].append(_processor_time(step, count))
        page.set(False)
        session.stop()
    return {
        "workload": workload,
        "steps a block": count,
        "alone_ms": round(statistics.median(times[ALONE]) / count * 1e3, 3),
        **{variant: _ratio(times[variant], times[ALONE], BOUNDS[variant]) for variant in BOUNDS},
    }


def _processor_time(step: Callable[[], None], count: int) -> float:
    for _ in range(_SETTLE_STEPS):
        step()
    began = time.process_time()
    for _ in range(count):
        step()
    return time.process_time() - began


def _steps_in(step: Callable[[], None], seconds: float) -> int:
    began = time.process_time()
    for _ in range(5):
        step()
    return max(5, round(5 * seconds / (time.process_time() - began)))


def _ratio(with_it: list[float], without: list[float], bound: float) -> dict[str, Any]:
    """The median ratio of rounds, and where it may be in truth."""
    ratios = [one / other for one, other in zip(with_it, without, strict=True)]
    chance = random.Random(1)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLED)
    )
    low, high = medians[_RESAMPLED // 40], medians[-_RESAMPLED // 40]
    verdict = "within" if high <= bound else "above" if low > bound else "not decided"
    return {
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(low, 4), round(high, 4)],
        "bound": bound,
        "verdict": verdict,
    }


def _free_ports() -> list[int]:
    from opscope.server.serve import listening_socket

    sockets = [listening_socket("127.0.0.1", 0) for _ in range(2)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def _wait(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not happens():
        if time.monotonic() > end:
            raise TimeoutError("the server does not answer")
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", nargs="+", default=["gpt", "tiny_gpt"])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=2.0, help="of processor time a block")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.follow:
        follow(args.follow)
        return
    os.environ.setdefault(TOKEN_VARIABLE, "a-token-of-the-benchmark")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(facts()))
    for workload in args.workload:
        print(json.dumps(measure(workload, args.rounds, args.seconds)), flush=True)


if __name__ == "__main__":
    main()

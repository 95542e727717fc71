"""What memory reuse, and keeping values for a live debugger, cost a compiled training.

    python benchmarks/mem_reuse.py [--steps 30] [--width 512] [--batch 2048] [--device cpu|cuda]

A training whose body is compiled by Inductor and whose loss is eager runs once for each pair of
memory reuse on or off and `--keep none` or `--keep all`, each in a process of its own, connected to
a server whose reader has told it to go on: so somebody is there, and values are kept. Printed are
the median processor time of a step after the first ten, all threads included, and the most memory
of the process; on a GPU the time on the clock, and the memory of its caching allocator.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from programs import facts

from opscope.access_token import TOKEN_VARIABLE

TOKEN = "a-token-of-the-benchmarks-0123456"
SCRIPT = """
import json, resource, statistics, sys, time
import torch
from torch import nn
import opscope

reuse, steps, width, batch, device = json.loads(sys.argv[1])
opscope.set_context(enable_mem_reuse=reuse)
torch.manual_seed(0)
layers = [part for _ in range(6) for part in (nn.Linear(width, width), nn.GELU())]
body = nn.Sequential(*layers).to(device)
compiled = torch.compile(body)
optimizer = torch.optim.SGD(body.parameters(), lr=0.01)
clock = time.perf_counter if device == "cuda" else time.process_time
times = []
for step in range(steps):
    began = clock()
    out = compiled(torch.randn(batch, width, device=device))
    loss = out.mul(2).relu_().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
    times.append(clock() - began)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
if device == "cuda":
    peak = torch.cuda.max_memory_allocated()
print(json.dumps({"ms": statistics.median(times[10:]) * 1e3, "mib": peak / 2**20}))
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    print(facts())
    print("| memory reuse | kept | step, ms | most memory, MiB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        for keep in ("none", "all"):
            for reuse in (True, False):
                words = json.dumps([reuse, args.steps, args.width, args.batch, args.device])
                found = trained(script, keep, words)
                state = "on" if reuse else "off"
                print(f"| {state} | {keep} | {found['ms']:.1f} | {found['mib']:,.0f} |", flush=True)


def trained(script: Path, keep: str, words: str) -> dict[str, float]:
    """Run one training with a reader, and return what it prints of itself."""
    page, trainings = free_port(), free_port()
    server = opscope(script.parent, "serve", "--port", page, "--debugger-port", trainings)
    try:
        wait_for_port(int(page))
        address = f"127.0.0.1:{trainings}"
        options = ("--server", address, "--wait", "--keep", keep, "--keep-budget", "4GiB")
        training = opscope(script.parent, "run", *options, str(script), words)
        control(script.parent, page, "continue")
        printed, _ = training.communicate(timeout=1200)
    finally:
        server.kill()
        server.wait()
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def opscope(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a program of opscope's."""
    return subprocess.Popen(
        [sys.executable, "-m", "opscope", *words],
        cwd=folder,
        env=os.environ | {TOKEN_VARIABLE: TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def control(folder: Path, page: str, verb: str) -> None:
    """Tell the training something as soon as it is there."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        done = opscope(folder, "ctl", "--server", f"127.0.0.1:{page}", "last", verb)
        if done.wait() == 0:
            return
        time.sleep(0.5)
    raise SystemExit("the training did not connect")


def wait_for_port(port: int) -> None:
    """Wait until somebody listens."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not start")


def free_port() -> str:
    """A port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


if __name__ == "__main__":
    main()

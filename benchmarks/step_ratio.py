"""How much slower a step is under opscope: plain and watched processes in turn, one thread.

    python benchmarks/step_ratio.py [--workload gpt|tiny_gpt|alexnet] [--mode capture|idle|stats …]

Each process trains for some steps and reports the median process time of a step; the ratio is that
of the medians over the rounds. Modes: `capture` (names, scopes, stacks, edges; no values), `idle`
(loaded, but not recording these steps), `stats` (statistics of every output into a run directory).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads import WORKLOADS

MODES = ("capture", "idle", "stats")


def child(workload: str, mode: str) -> None:
    """Measure one process; the last line printed is the median step in milliseconds."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, count = WORKLOADS[workload]
    step = make()
    start(mode)
    for _ in range(max(3, count // 4)):
        step()
    times = []
    for _ in range(count):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    print(statistics.median(times) * 1e3)
    sys.stdout.flush()
    os._exit(0)


def start(mode: str) -> None:
    """Switch on what is to be measured."""
    if mode == "plain":
        return
    import opscope
    from opscope.capture.torch_capture import TorchCapture
    from opscope.events import BaseSink
    from opscope.pipeline import Pipeline
    from opscope.stats.engine import NumpyEngine

    if mode == "stats":
        opscope.start(run_dir=Path(tempfile.mkdtemp()) / "run")
    else:
        wanted = (lambda n: n == 0) if mode == "idle" else (lambda n: True)
        TorchCapture(Pipeline([BaseSink()], NumpyEngine(), wanted), lambda: 0).start()


def measure(workload: str, mode: str) -> float:
    """Run one process and read its figure."""
    command = [sys.executable, __file__, "--child", workload, mode]
    return float(subprocess.check_output(command, text=True).splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
    for workload in args.workload or WORKLOADS:
        times: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for mode in ("plain", *(args.mode or MODES)):
                times.setdefault(mode, []).append(measure(workload, mode))
        plain = statistics.median(times["plain"])
        for mode, values in times.items():
            figure = statistics.median(values)
            result = {"workload": workload, "mode": mode, "ms": round(figure, 3)}
            print(json.dumps(result | {"ratio": round(figure / plain, 3)}), flush=True)


if __name__ == "__main__":
    main()

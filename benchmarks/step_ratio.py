"""How much slower a step is under opscope: blocks of plain and watched steps in turn, one thread.

    python benchmarks/step_ratio.py [--workload gpt|tiny_gpt|alexnet] [--mode capture|idle|stats …]

Modes: `capture` (names, scopes, stacks, edges; no values), `idle` (loaded, but not recording these
steps), `stats` (statistics of every output into a run directory). Each round runs a block of every
mode and takes the fastest step of each, in process time; the ratio is the median over the rounds of
that to the plain block of the same round, with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from workloads import WORKLOADS

import opscope
from opscope.capture.torch_capture import TorchCapture
from opscope.events import BaseSink
from opscope.pipeline import Pipeline
from opscope.stats.engine import Engine

MODES = ("capture", "idle", "stats")


@contextmanager
def watching(mode: str) -> Iterator[None]:
    """Switch on what is to be measured."""
    if mode == "plain":
        yield
    elif mode == "stats":
        directory = Path(tempfile.mkdtemp())
        with opscope.start(run_dir=directory / "run"):
            yield
        shutil.rmtree(directory)
    else:
        wanted = (lambda step: step == 0) if mode == "idle" else (lambda step: True)
        capture = TorchCapture(Pipeline([BaseSink()], Engine(), wanted), lambda: 0)
        capture.start()
        yield
        capture.stop()


def block(step: Callable[[], None], mode: str, count: int) -> list[float]:
    """Process times of some steps, after a few that are not counted."""
    times = []
    with watching(mode):
        for _ in range(4):
            step()
        for _ in range(count):
            began = time.process_time()
            step()
            times.append(time.process_time() - began)
    return times


def measure(workload: str, modes: tuple[str, ...], rounds: int) -> None:
    """Print one line per mode."""
    torch.manual_seed(0)
    make, count = WORKLOADS[workload]
    step = make()
    figures: dict[str, list[float]] = {mode: [] for mode in ("plain", *modes)}
    for _ in range(rounds):
        for mode, values in figures.items():
            values.append(min(block(step, mode, count)))
    for mode, values in figures.items():
        pairs = zip(values, figures["plain"], strict=True)
        ratios = sorted(value / plain for value, plain in pairs)
        result = {"workload": workload, "mode": mode}
        result["ms"] = round(statistics.median(values) * 1e3, 3)
        result["ratio"] = round(statistics.median(ratios), 3)
        result["quartiles"] = [round(q, 3) for q in statistics.quantiles(ratios, n=4)[::2]]
        print(json.dumps(result), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for workload in args.workload or WORKLOADS:
        measure(workload, tuple(args.mode or MODES), args.rounds)


if __name__ == "__main__":
    main()

"""How fast tensors are dumped, against plain `numpy.save` of the same arrays.

    python benchmarks/dump_throughput.py [--workload alexnet|tiny_gpt] [--directory DIR]

Processes in turn: plain steps, steps dumped synchronously, steps dumped asynchronously. What a dump
adds to a step is its wall time minus that of a plain step. Then, into an equally fresh directory,
the arrays of one dumped iteration are saved with `numpy.save`, one file each, as many times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from workloads import WORKLOADS

STEPS = 6


def child(workload: str, mode: str, directory: Path) -> None:
    """Print the median wall time of a step, in seconds."""
    import torch

    import opscope

    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, _ = WORKLOADS[workload]
    step = make()
    for _ in range(2):
        step()
    if mode != "plain":
        opscope.start(dump=write_config(directory, synchronous=mode == "sync"))
    times = []
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    opscope.stop()
    print(statistics.median(times[1:]))


def write_config(directory: Path, synchronous: bool) -> Path:
    """A config that dumps everything of every iteration."""
    common = {"path": str(directory / "dump"), "iteration": "all"}
    config = {"common_dump_settings": common, "e2e_dump_settings": {"enable": synchronous}}
    file = directory / "dump.json"
    file.write_text(json.dumps(config))
    return file


def measure(workload: str, mode: str, directory: Path) -> float:
    """One process into an empty directory."""
    shutil.rmtree(directory / "dump", ignore_errors=True)
    os.sync()
    command = [sys.executable, __file__, "--child", workload, mode, str(directory)]
    return float(subprocess.check_output(command, text=True).splitlines()[-1])


def save_again(directory: Path) -> tuple[float, int, int]:
    """Seconds, bytes and files of saving one iteration's arrays with NumPy."""
    iteration = directory / "dump" / "rank_0" / "Net" / "0" / str(STEPS - 2)
    arrays = [np.load(file) for file in sorted(iteration.glob("*.npy"))]
    shutil.rmtree(directory / "dump")
    os.sync()
    times = []
    for iteration_id in range(STEPS):
        target = directory / "dump" / str(iteration_id)
        target.mkdir(parents=True)
        began = time.perf_counter()
        for index, array in enumerate(arrays):
            np.save(target / f"{index}.npy", array)
        times.append(time.perf_counter() - began)
    size = sum(array.nbytes for array in arrays)
    return statistics.median(times[1:]), size, len(arrays)


def report(workload: str, rounds: int, directory: Path) -> dict[str, object]:
    """Measure everything for one workload."""
    times: dict[str, list[float]] = {"plain": [], "async": [], "sync": []}
    saves = []
    for _ in range(rounds):
        for mode, values in times.items():
            values.append(measure(workload, mode, directory))
        saves.append(save_again(directory))
    plain, asynchronous, synchronous = (statistics.median(values) for values in times.values())
    seconds = statistics.median(save[0] for save in saves)
    _, size, files = saves[0]
    sync_added, async_added = synchronous - plain, asynchronous - plain
    return {
        "workload": workload,
        "files": files,
        "megabytes": round(size / 1e6, 1),
        "plain_ms": round(plain * 1e3, 1),
        "sync_added_ms": round(sync_added * 1e3, 1),
        "async_added_ms": round(async_added * 1e3, 1),
        "numpy_save_ms": round(seconds * 1e3, 1),
        "sync_throughput_of_numpy": round(seconds / sync_added, 2),
        "async_of_sync": round(async_added / sync_added, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], args.child[1], Path(args.child[2]))
        return
    for workload in args.workload or ("alexnet", "tiny_gpt"):
        with tempfile.TemporaryDirectory(dir=args.directory) as directory:
            print(json.dumps(report(workload, args.rounds, Path(directory))), flush=True)


if __name__ == "__main__":
    main()

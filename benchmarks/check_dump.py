"""How long `opscope check` takes on a dump: 400 MB of float32 in 100 files, six conditions.

    python benchmarks/check_dump.py [--megabytes 400] [--files 100] [--folder /tmp]

Makes a dump, then runs the command several times: the whole process, and within it what comes after
the start of Python. Files are in the page cache, as after a training.
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

import numpy as np

STEPS = 5
WATCH = {
    "weights": (
        "TO class=weight; TZ class=weight; TL class=weight abs_mean_gt=10; WCL; WNC;"
        "TR class=weight range_percentage_lt=1 range_start_inclusive=-1 range_end_inclusive=1"
    ),
    "operators and weights": (
        "TO; TZ; TL abs_mean_gt=10; WCL; WNC;"
        "TR range_percentage_lt=1 range_start_inclusive=-1 range_end_inclusive=1"
    ),
}
INSIDE = """
import time
start = time.perf_counter()
import sys
from opscope.commands import main
main(["check", sys.argv[1], "--watch", sys.argv[2], "--json"])
sys.stdout.flush()
print(time.perf_counter() - start, file=sys.stderr)
"""


def make_dump(folder: Path, files: int, elements: int, share_of_weights: float) -> Path:
    """A dump of five steps, with so many files in all, as docs/dump.md has it."""
    generator = np.random.default_rng(0)
    root = folder / "rank_0"
    (root / ".dump_metadata").mkdir(parents=True)
    (root / "execution_order").mkdir()
    config = {"common_dump_settings": {"path": str(folder), "net_name": "Net", "iteration": "all"}}
    manifest = {"format": 1, "rank": 0, "ended": "now", "complete": True}
    (root / ".dump_metadata/data_dump.json").write_text(json.dumps(config))
    (root / ".dump_metadata/manifest.json").write_text(json.dumps(manifest))
    per_step = files // STEPS
    weights = round(per_step * share_of_weights)
    arrays = [generator.standard_normal(elements, np.float32) for _ in range(per_step)]
    names = [f"Default/network-Net/layer{n}-Linear/addmm-op0" for n in range(weights, per_step)]
    order = "\n".join(["NodeExecutionOrder-FullNameWithScope", *names, ""])
    (root / "execution_order/ms_execution_order_graph_0.csv").write_text(order)
    for step in range(STEPS):
        directory = root / "Net/0" / str(step)
        directory.mkdir(parents=True)
        for number, array in enumerate(arrays):
            label = f"Parameter.layer{number}_weight"
            if number >= weights:
                label = "addmm." + names[number - weights].replace("/", "_")
            end = f"{number}.0.1700000000000000.output.0.DefaultFormat.float32.npy"
            np.save(directory / f"{label}.{end}", array)
            array *= np.float32(1.001)
    return folder


def measure(path: Path, watch: str) -> tuple[float, float, float]:
    """Seconds of the whole process, of what comes after its start, and of its work on all cores."""
    start, worked = time.perf_counter(), _work()
    words = [sys.executable, "-c", INSIDE, str(path), watch]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    inside = float(done.stderr.split()[-1])
    return time.perf_counter() - start, inside, _work() - worked


def _work() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    elements = args.megabytes * 1_000_000 // 4 // args.files
    for name, watch in WATCH.items():
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            share = 1.0 if name == "weights" else 0.5
            path = make_dump(Path(folder), args.files, elements, share)
            measure(path, watch)
            times = [measure(path, watch) for _ in range(args.rounds)]
        whole, inside, work = zip(*times, strict=True)
        print(
            f"{name}: {args.files} files of {elements * 4 / 1e6:.1f} MB, six conditions: "
            f"{statistics.median(inside):.3f} s [{min(inside):.3f}, {max(inside):.3f}] after the "
            f"start of Python, {statistics.median(whole):.3f} s in all, of which "
            f"{statistics.median(work):.3f} s of processor time"
        )


if __name__ == "__main__":
    main()

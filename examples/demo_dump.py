"""What `make demo-dump` runs: train the AlexNet under opscope, then look at what was written."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "demo-dump"


def show(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}", flush=True)


def run(*command: str, code: int = 0) -> None:
    print("$", " ".join(command), flush=True)
    environ = os.environ | {"MS_DIAGNOSTIC_DATA_PATH": str(TARGET)}
    done = subprocess.run([sys.executable, "-m", *command], check=False, env=environ, cwd=HERE)
    if done.returncode != code:
        sys.exit(f"exit code {done.returncode}, not {code}")


def describe(dump: Path) -> None:
    """A few lines on the files of iteration 0."""
    iteration = dump / "AlexNet" / "0" / "0"
    files = sorted(iteration.glob("*.npy"))
    size = sum(file.stat().st_size for file in files)
    print(f"{iteration.relative_to(HERE.parent)}/: {len(files)} tensors, {size / 1e6:.1f} MB")
    forward = [f for f in files if f.name.startswith("convolution.Default_") and "conv3" in f.name]
    output = next(file for file in forward if ".output.0." in file.name)
    print(f"  the output of conv3 is in {output.name}")
    array = np.load(output)
    print(f"  numpy.load of it: shape {array.shape}, dtype {array.dtype}, mean {array.mean():.5f}")
    with open(iteration / "statistic.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["Op Name"].startswith("Gradients/")]
    worst = max(rows, key=lambda row: float(row["L2Norm Value"] or 0))
    print(f"  statistic.csv: the largest gradient norm is {float(worst['L2Norm Value']):.4g},")
    print(f"  in {worst['Op Name']} ({worst['IO']} {worst['Slot']})")
    order = dump / "execution_order" / "ms_execution_order_graph_0.csv"
    print(f"{order.relative_to(HERE.parent)}: {len(order.read_text().splitlines()) - 1} operators")


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    show("1. Train the AlexNet for four steps and dump every operator of iteration 0")
    run("opscope", "run", "--dump", "data_dump.json", "alexnet.py")
    show("2. What was written")
    describe(TARGET / "debug_dump" / "rank_0")
    show("3. The same training with a run directory: statistics of every operator, every step")
    run("opscope", "run", "--run-dir", str(TARGET / "run"), "alexnet.py")
    run("opscope", "show", str(TARGET / "run"), "network-AlexNet/conv3-Conv2d/convolution-op0")
    run("opscope", "query", str(TARGET / "run"), QUERY)
    show("4. A training whose loss turns NaN: opscope ends it and says where that began")
    run("opscope", "run", "--run-dir", str(TARGET / "nan"), "turns_nan.py", code=3)
    run("opscope", "hits", str(TARGET / "nan"))
    show(
        "Next: docs/verdict.md, docs/dump.md, docs/run-directory.md, "
        "or `opscope run` on a script of yours"
    )


QUERY = (
    "select step, min, max, l2 from stats join nodes using (node) "
    "where parameter = 'conv3.weight' and stats.phase = 'backward' and io = 'output' order by step"
)


if __name__ == "__main__":
    main()

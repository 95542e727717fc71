"""Who finds the line: `torch.autograd.detect_anomaly` and opscope on the scripts of tests/faults.

Every script runs once under each, unchanged; a markdown table says what line was named. "silent"
means that nothing was said: the training went on, or ended with an error of the script's own.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "tests" / "faults" / "nonfinite"
RIGHT, WRONG, SILENT = "right line", "wrong line", "silent"
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
FORWARD = "Traceback of forward call that caused the error"
FAILED = re.compile(r"RuntimeError: Function '\w+' returned nan values")
FRAME = re.compile(r'File "(.*?)", line (\d+)')
ORIGIN = re.compile(r"^(?:opscope: )?origin: (.*):(\d+)$", re.MULTILINE)


def run_under_anomaly(script: str) -> None:
    """Run a script in this process with `detect_anomaly` on."""
    import torch

    torch.autograd.set_detect_anomaly(True)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def stderr_of(script: Path, *words: str | Path) -> str:
    """Run Python with these words, by torchrun if the script is a distributed one."""
    launcher = LAUNCHER if "init_process_group" in script.read_text() else ()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *launcher, *map(str, words)],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return done.stderr


def named_by_anomaly(script: Path) -> list[int] | None:
    """The line of the forward operator that is blamed; none if the failure has no traceback."""
    text = stderr_of(script, Path(__file__).resolve(), "--under-anomaly", script)
    if not FAILED.search(text):
        return None
    _, _, forward = text.partition(FORWARD)
    forward = forward.partition("Traceback (most recent call last)")[0]
    return [int(line) for file, line in FRAME.findall(forward) if file == str(script)][-1:]


def named_by_opscope(script: Path) -> list[int] | None:
    """The line of the origin."""
    text = stderr_of(script, "-m", "opscope", "run", "--no-page", script)
    return [int(line) for _, line in ORIGIN.findall(text)] or None


def judged(script: Path, named: Callable[[Path], list[int] | None]) -> str:
    """What is to be said of the lines that were named."""
    lines = script.read_text().splitlines()
    right = next(n for n, line in enumerate(lines, 1) if line.endswith("# origin"))
    found = named(script)
    if found is None:
        return SILENT
    return RIGHT if found == [right] else WRONG


def kind_of(script: Path) -> str:
    """What the script says of itself."""
    found = re.search(r"^kind: (.*)$", script.read_text(), re.MULTILINE)
    return found[1] if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--under-anomaly", metavar="SCRIPT", help="run one script, print nothing")
    parser.add_argument("--jobs", type=int, default=2, help="scripts at a time (default: 2)")
    arguments = parser.parse_args()
    if arguments.under_anomaly:
        run_under_anomaly(arguments.under_anomaly)
        return
    scripts = sorted(SCRIPTS.glob("*.py"))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        anomaly = list(pool.map(lambda script: judged(script, named_by_anomaly), scripts))
        ours = list(pool.map(lambda script: judged(script, named_by_opscope), scripts))
    print("| script | kind | detect_anomaly | opscope |\n|---|---|---|---|")
    for script, theirs, own in zip(scripts, anomaly, ours, strict=True):
        print(f"| {script.stem} | {kind_of(script)} | {theirs} | {own} |")
    totals = ["; ".join(f"{n} {what}" for what, n in Counter(c).items()) for c in (anomaly, ours)]
    print(f"| **of {len(scripts)}** | | {totals[0]} | {totals[1]} |")


if __name__ == "__main__":
    main()

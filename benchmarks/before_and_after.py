"""Two versions of opscope side by side: what each costs a training, a start, a check and a reader.

    python benchmarks/before_and_after.py BEFORE [AFTER] [--rounds 7] [--only import …]

BEFORE and AFTER are source trees (`git worktree add`); AFTER is this one if it is not given. In
each round every measurement is taken in both versions, in turns, each in a process of its own, by
the time of the processor that it and its children take. Printed are the medians and, in brackets,
the least and the largest of them and of the ratios within a round. Both read the same run, which
the first of them has written. What the first does not have, such as a recorder, is left out or a
measurement of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from programs import SCRIPT, facts, spread

SOURCE = Path(__file__).resolve().parent.parent
STEPS = {"tiny_gpt": 120, "gpt": 9}
NODE = "Default/network-GPT/blocks-ModuleList/0-Block/qkv-Linear/addmm-op0"
SQL = "select name, max(max) from stats group by name order by 2 desc limit 5"


class Version(NamedTuple):
    """A source tree, and the options that make its `run` do the same as that of others."""

    tree: Path
    options: tuple[str, ...]

    def seconds(self, words: Sequence[str], folder: Path) -> tuple[float, str]:
        """The processor time of a Python process and its children, and what it printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.tree / "src"), "OMP_NUM_THREADS": "1"}
        before = _used()
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{words} failed: {done.stderr.strip()[-800:]}")
        return _used() - before, done.stdout


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def imports(module: str) -> Callable[[Version, Path], float]:
    """The milliseconds that an import takes, Python's own start included."""
    return lambda version, run: 1e3 * version.seconds(["-c", f"import {module}"], run.parent)[0]


def verb(*words: str) -> Callable[[Version, Path], float]:
    """The milliseconds of a whole verb on the run."""
    return lambda version, run: (
        1e3 * version.seconds(["-m", "opscope", words[0], str(run), *words[1:]], run.parent)[0]
    )


def step(workload: str, *more: str, watched: bool = True) -> Callable[[Version, Path], float]:
    """The milliseconds of a step of a training, by its own processor time."""

    def measured(version: Version, run: Path) -> float:
        words = ["-m", "opscope", "run", *version.options, *more] if watched else []
        with tempfile.TemporaryDirectory() as folder:
            script = [str(SCRIPT), workload, str(STEPS[workload])]
            _, printed = version.seconds([*words, *script], Path(folder))
        return float(json.loads(printed.splitlines()[-1])["process_ms"])

    return measured


MEASUREMENTS = {
    "import opscope": imports("opscope"),
    "tiny GPT, plainly": step("tiny_gpt", watched=False),
    "tiny GPT, opscope run": step("tiny_gpt"),
    "tiny GPT, opscope run --watch none": step("tiny_gpt", "--watch", "none"),
    "GPT of 6 layers, plainly": step("gpt", watched=False),
    "GPT of 6 layers, opscope run": step("gpt"),
    "opscope check": verb("check"),
    "opscope show": verb("show", NODE),
    "opscope query": verb("query", SQL),
}


def write_run(version: Version, run: Path) -> None:
    """A run of the tiny GPT that both versions read."""
    words = ["-m", "opscope", "run", *version.options, "--run-dir", str(run), str(SCRIPT)]
    version.seconds([*words, "tiny_gpt", "300"], run.parent)


def report(name: str, before: list[float], after: list[float]) -> None:
    """One line of JSON."""
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    line = {"what": name, "before_ms": spread(before), "after_ms": spread(after)}
    print(json.dumps({**line, "ratio": spread(ratios, 3), "load": _load()}), flush=True)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=SOURCE)
    parser.add_argument("--before-option", action="append", default=[], help="of opscope run")
    parser.add_argument("--after-option", action="append", default=[], help="of opscope run")
    parser.add_argument("--only", action="append", default=[], help="those with this in their name")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    versions = (
        Version(args.before.resolve(), tuple(args.before_option)),
        Version(args.after.resolve(), tuple(args.after_option)),
    )
    print(json.dumps(facts()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        write_run(versions[0], run)
        for name, measure in MEASUREMENTS.items():
            if args.only and not any(part in name for part in args.only):
                continue
            measure_both(name, measure, versions, run, args.rounds)


def measure_both(
    name: str,
    measure: Callable[[Version, Path], float],
    versions: tuple[Version, Version],
    run: Path,
    rounds: int,
) -> None:
    """Take turns, the other one first in every other round; the first round is not counted."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        times = {which: measure(versions[which], run) for which in order}
        if number:
            found[0].append(times[0])
            found[1].append(times[1])
    report(name, *found)


if __name__ == "__main__":
    main()

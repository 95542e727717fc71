"""How long questions to a large run take, and how much memory.

    python benchmarks/reading.py [--folder DIR] [--rounds 5]

Writes a run of 2 GiB (2,000 operators, 8,192 steps) and one of 50,000 operators with the real
writer, and the first once more within a budget of 256 MiB, which has it thinned; then asks each
question in a process of its own, warm: the least time of the rounds, by the clock and of the
processor, and the largest memory of the process, with what of it is not pages of files. `written`
is what a row costs the writer beyond being copied into its place, in time of the processor, and the
longest it stops for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from long_run import write_run

from opscope.read.reader import Reader, open_reader, open_recording
from opscope.rundir.segments import SegmentWriter
from opscope.stats.record import ROW_DTYPE, VALID

GIB = 1 << 30
LARGE, WIDE, THINNED = "large", "wide", "thinned"
SQL = {
    "query: one node": "select step, mean from stats where node = 777",
    "query: nodes by name": "select step, max from stats where name like '%/37-Block/fc1%'",
    "query: all rows": "select node, max(max) from stats group by node",
    "query: the largest": "select step, name, mean from stats order by mean desc limit 5",
    "query: sort all rows": "select node, mean from stats order by mean",
    "query: many rows": "select * from stats where max > 3",
}


def everything(path: Path) -> Reader:
    """Open a run with all but its rows."""
    reader = open_reader(path)
    rank = reader.recording.rank(0)
    assert rank.steps and rank.nodes and rank.recorded_steps
    return reader


def questions(folder: Path) -> dict[str, Callable[[], Callable[[], Any]]]:
    """By name: what makes the question, ready to be asked."""

    def of(run: str, ask: Callable[[Reader], Any]) -> Callable[[], Callable[[], Any]]:
        def ready() -> Callable[[], Any]:
            reader = everything(folder / run)
            return lambda: ask(reader)

        return ready

    def series(reader: Reader) -> Any:
        return reader.series(reader.select_nodes("/77-Block/fc1-Linear/addmm-op2")[0])

    return {
        "open": lambda: lambda: everything(folder / LARGE),
        "one node over all steps": of(LARGE, series),
        "the same, thinned": of(THINNED, series),
        "one step": of(LARGE, lambda reader: reader.recording.rank(0).stats(steps={4000})),
        "refresh, nothing new": of(LARGE, lambda reader: reader.recording.rank(0).refresh()),
        "scopes, 50,000 nodes": of(WIDE, lambda reader: reader.scope_numbers()),
        **{name: (lambda sql=sql: lambda: _query(folder, sql)) for name, sql in SQL.items()},
    }


def _query(folder: Path, sql: str) -> int:
    from opscope.read.tables import Tables

    with Tables(open_recording(folder / LARGE), sql) as tables:
        return sum(1 for _ in tables.ask(sql)[1])


def ask(folder: Path, name: str, rounds: int) -> None:
    """Ask one question in this process and print what it took."""
    question = questions(folder)[name]()
    times, work = [], []
    for _ in range(rounds):
        start, cpu = time.perf_counter(), time.process_time()
        question()
        times.append(time.perf_counter() - start)
        work.append(time.process_time() - cpu)
    took = {"ms": round(1e3 * min(times), 1), "cpu_ms": round(1e3 * min(work), 1)}
    print(json.dumps({"question": name, **took, **_memory()}), flush=True)


def _memory() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if "kB" in line}
    return {"peak_mb": int(found["VmHWM"]) // 1000, "anonymous_mb": int(found["RssAnon"]) // 1000}


def measure_writing(folder: Path, per_step: int, budget: int, rows: int) -> None:
    """Print what thinning and indexing cost per row."""
    directory = folder / "written"
    directory.mkdir()
    writer = SegmentWriter(directory, budget)
    spent: list[float] = []
    advance = writer.advance

    def timed() -> None:
        start = time.process_time()
        advance()
        spent.append(time.process_time() - start)

    writer.advance = timed  # type: ignore[method-assign]
    records = np.zeros(per_step, ROW_DTYPE)
    records["valid"] = VALID
    records["node"] = records["call"] = np.arange(per_step)
    for step in range(rows // per_step):
        records["step"] = step
        writer.append(records)
        writer.settle(step)
    line = {
        "written": f"{per_step} rows a step, budget {budget >> 20} MiB, {rows:,} rows",
        "ns_per_row": round(1e9 * sum(spent) / rows),
        "longest_ms": round(1e3 * max(spent)),
        "thinned": writer.thinned,
    }
    print(json.dumps(line), flush=True)
    writer.close()
    shutil.rmtree(directory)


def measure_program(folder: Path) -> None:
    """Print how long the program takes for one node, with the start of Python."""
    command = [sys.executable, "-m", "opscope", "query", folder / LARGE, SQL["query: one node"]]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    print(json.dumps({"program": "opscope query", "ms": round(1e3 * min(times))}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the runs are or will be written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        ask(args.folder, args.ask, args.rounds)
        return
    print(json.dumps({"python": platform.python_version(), "numpy": np.__version__}), flush=True)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="opscope-reading-"))
    folder.mkdir(exist_ok=True)
    try:
        for name, nodes, steps, budget in (
            (LARGE, 2000, 8192, 4 * GIB),
            (WIDE, 50_000, 20, GIB),
            (THINNED, 2000, 8192, GIB // 4),
        ):
            if not (folder / name).exists():
                write_run(folder / name, nodes, steps, budget)
        for name in questions(folder):
            words = ["--folder", folder, "--ask", name, "--rounds", str(args.rounds)]
            environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
            subprocess.run([sys.executable, __file__, *words], env=environ, check=True)
        measure_program(folder)
        for per_step, budget in ((700, GIB // 16), (2000, GIB // 4)):
            measure_writing(folder, per_step, GIB, 4_000_000)
            measure_writing(folder, per_step, budget, 4_000_000)
    finally:
        if args.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

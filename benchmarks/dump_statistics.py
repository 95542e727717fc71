"""What a dump of statistics adds to a step: blocks of plain and dumped steps in turn, one thread.

    python benchmarks/dump_statistics.py [--workload tiny_gpt|gpt|alexnet] [--mode async …]

Modes: `rows` (the statistics of every input and output, which nobody writes), `async` and `sync`
(they are written: `saved_data` "statistic", `input_output` 0, all iterations). Each round runs a
block of every mode and takes the fastest step of each, in the process time of the training process;
`ratio` is the median over the rounds of that to the plain block of the same round; `beyond_ms` the
median of what it takes beyond the mode `rows`; `us_per_row` the time that the sink itself takes in
a step, per row: the fastest step of the fastest round, because other processes only add to it.
"""

from __future__ import annotations

import argparse
import json
import operator
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from workloads import WORKLOADS

from opscope.capture.torch_capture import TorchCapture
from opscope.dump.sink import DumpSink
from opscope.events import BaseSink, Node, Sink, Want
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.settings.dump import load_dump_settings
from opscope.stats.engine import Engine

MODES = ("rows", "async", "sync")


class Ignoring(BaseSink):
    """Has rows computed and only counts them."""

    def __init__(self) -> None:
        self.rows = 0

    def wants(self, node: Node) -> Want:
        return Want.INPUT_STATS | Want.OUTPUT_STATS

    def stats(self, rows: Rows) -> None:
        self.rows += len(rows)


def dump_sink(directory: Path, synchronous: bool) -> DumpSink:
    """A dump of all statistics below a directory."""
    common: dict[str, object] = {"path": str(directory), "net_name": "Net", "iteration": "all"}
    common |= {"saved_data": "statistic", "input_output": 0}
    config = {"common_dump_settings": common, "e2e_dump_settings": {"enable": synchronous}}
    file = directory / "dump.json"
    file.write_text(json.dumps(config))
    return DumpSink(load_dump_settings(str(file), {}), "benchmark")


class Timed:
    """Adds up the time that a sink takes in a step."""

    def __init__(self, sink: Sink) -> None:
        self.steps: list[float] = []
        self._sum = 0.0
        for callback in ("stats", "step_begin", "step_end"):
            setattr(sink, callback, self._timed(getattr(sink, callback), callback == "step_end"))

    def _timed(self, callback: Callable[..., None], is_last: bool) -> Callable[..., None]:
        def timed(argument: object) -> None:
            began = time.thread_time()
            callback(argument)
            self._sum += time.thread_time() - began
            if is_last:
                self.steps.append(self._sum)
                self._sum = 0.0

        return timed


@contextmanager
def watching(mode: str) -> Iterator[Sink | None]:
    """Switch on what is to be measured."""
    if mode == "plain":
        yield None
        return
    directory = Path(tempfile.mkdtemp())
    sink: Sink = Ignoring() if mode == "rows" else dump_sink(directory, mode == "sync")
    capture = TorchCapture(Pipeline([sink], Engine()), lambda: 0)
    capture.start()
    yield sink
    capture.stop()
    shutil.rmtree(directory)


class Block(NamedTuple):
    """Some steps: the fastest one, the least that the sink took, and the rows of one."""

    seconds: float
    sink_seconds: float
    rows: float


def block(step: Callable[[], None], mode: str, count: int) -> Block:
    """Run some steps, after a few that are not counted."""
    times = []
    with watching(mode) as sink:
        for _ in range(4):
            step()
        timed = Timed(sink) if sink is not None else None
        for _ in range(count):
            began = time.process_time()
            step()
            times.append(time.process_time() - began)
    rows = sink.rows / (count + 4) if isinstance(sink, Ignoring) else 0.0
    return Block(min(times), min(timed.steps) if timed else 0.0, rows)


def measure(workload: str, modes: tuple[str, ...], rounds: int) -> None:
    """Print one line per mode."""
    torch.manual_seed(0)
    make, count = WORKLOADS[workload]
    step = make()
    names = dict.fromkeys(("plain", "rows", *modes))
    blocks: dict[str, list[Block]] = {mode: [] for mode in names}
    for _ in range(rounds):
        for mode, values in blocks.items():
            values.append(block(step, mode, count))
    rows = max(each.rows for each in blocks["rows"])
    for mode, values in blocks.items():
        result: dict[str, object] = {"workload": workload, "mode": mode}
        ratios = _compared(values, blocks["plain"], operator.truediv)
        result["ms"] = round(statistics.median(each.seconds for each in values) * 1e3, 3)
        result["ratio"] = round(statistics.median(ratios), 3)
        result["quartiles"] = [round(q, 3) for q in statistics.quantiles(ratios, n=4)[::2]]
        if mode not in ("plain", "rows"):
            beyond = _compared(values, blocks["rows"], operator.sub)
            result["beyond_ms"] = round(statistics.median(beyond) * 1e3, 3)
            result["rows"] = round(rows)
            least = min(each.sink_seconds for each in values)
            result["us_per_row"] = round(least / rows * 1e6, 3)
        print(json.dumps(result), flush=True)


def _compared(
    these: list[Block], those: list[Block], how: Callable[[float, float], float]
) -> list[float]:
    pairs = zip(these, those, strict=True)
    return sorted(how(this.seconds, that.seconds) for this, that in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for workload in args.workload or ("tiny_gpt", "gpt"):
        measure(workload, tuple(args.mode or MODES), args.rounds)


if __name__ == "__main__":
    main()

"""What a dump costs: many small tensors, one large stream, and steps without it.

    python benchmarks/dump_files.py [--directory DIR] [--rounds N]

`files`: a step of 1,000 operators with one output of 1 KiB each, dumped asynchronously, until
everything is on its way to the disk, against a loop of `open`, `write`, `close` of the same bytes.
`stream`: a step of 64 outputs of 4 MiB, packed, against `write` of the same bytes to one file.
Times are the process time of the training and of the process that writes together, which is what
one core would take; `wall` is what the clock says. Each round measures both of a pair in equally
fresh directories; figures are medians of the ratios.
`idle`: the smallest step with a dump whose iterations are far away, against one without, in blocks
that take turns; process time, the fastest of each block. What is added does not depend on how many
operators a step has, so the ratio of a tiny GPT follows from its own time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from workloads import WORKLOADS

import opscope
from opscope.dump.sinks.dump_sink import DumpSink
from opscope.events import Call, Node, Output, PassingValue, Phase, Stack, StepRecord
from opscope.settings.dump import load_dump_settings

FILES, SMALL = 1000, 256
PIECES, LARGE = 64, 2**20
STEPS = 6


def make_nodes(count: int) -> list[Node]:
    """Call sites with one output each."""
    nodes = []
    for number in range(count):
        name = f"Default/network-Net/layer{number}-Linear/addmm-op0"
        scope = name.rpartition("/")[0]
        node = Node(
            number, 0, name, "addmm", "aten.addmm", scope, "Linear", Phase.FORWARD, Stack(0, ())
        )
        node.outputs.append(Output(node, 0))
        nodes.append(node)
    return nodes


def write_config(directory: Path, **common: object) -> Path:
    """A config that dumps the outputs of every iteration."""
    base = {"path": str(directory / "dump"), "iteration": "all", "input_output": 2}
    file = directory / "dump.json"
    file.write_text(json.dumps({"common_dump_settings": base | common}))
    return file


class Cost(NamedTuple):
    """Seconds of one core, and of the clock."""

    core: float
    wall: float


def writer_of(directory: Path) -> int:
    """The process that writes a dump into this directory."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes()
            if b"opscope.dump.transport.worker" in command and str(directory).encode() in command:
                return int(path.parent.name)
    raise RuntimeError("there is no process that writes")


class Watched:
    """How much time a process that is not our child has taken, as long as it lives."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/schedstat")
        self.seconds = 0.0
        threading.Thread(target=self._follow, daemon=True).start()

    def look(self) -> float:
        with contextlib.suppress(OSError):
            tasks = (self._file.parent / "task").iterdir()
            spent = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
            self.seconds = max(self.seconds, sum(spent) / 1e9)
        return self.seconds

    def _follow(self) -> None:
        while self._file.exists():
            self.look()
            time.sleep(0.005)


def dump(directory: Path, nodes: list[Node], tensors: list[torch.Tensor], **common: object) -> Cost:
    """What a dump of some steps takes, from the first value to the end."""
    settings = load_dump_settings(str(write_config(directory, **common)), {})
    sink = DumpSink(settings, "benchmark")
    sink.open(0)
    for node in nodes:
        sink.wants(node)
    for tensor in tensors:  # the first step prepares memory and caches, as it does in training
        tensor.add_(1)
    writer = Watched(writer_of(directory))
    began = began_core = 0.0
    for step in range(STEPS + 1):
        if step == 1:
            wait_until_written(directory, 0)
            began, began_core = time.perf_counter(), time.thread_time() + writer.look()
        sink.step_begin(step)
        for index, (node, tensor) in enumerate(zip(nodes, tensors, strict=True)):
            call = Call(node, step, index, 0, 1_700_000_000_000_000 + index)
            sink.outputs(call, [PassingValue(0, tensor, None)])
        sink.step_end(StepRecord(step, {0: nodes}, [], 0.1))
    sink.close()
    core = time.thread_time() + writer.look() - began_core
    return Cost(core, time.perf_counter() - began)


def wait_until_written(directory: Path, step: int) -> None:
    """Wait until the manifest has a step."""
    manifest = directory / "dump/rank_0/.dump_metadata/manifest.json"
    while not any(e["complete"] for e in json.loads(manifest.read_text())["iterations"]):
        time.sleep(0.01)


def plain_files(directory: Path, names: list[str], data: bytes) -> Cost:
    """What a plain loop takes for as many files of as many bytes."""
    folders = [directory / "plain" / str(step) for step in range(STEPS)]
    for folder in folders:
        folder.mkdir(parents=True)
    began, began_core = time.perf_counter(), time.thread_time()
    for folder in folders:
        base = str(folder)
        for name in names:
            file = os.open(f"{base}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(file, data)
            os.close(file)
    return Cost(time.thread_time() - began_core, time.perf_counter() - began)


def plain_stream(directory: Path, tensors: list[torch.Tensor]) -> Cost:
    """What one file per step takes, written in pieces as large as the tensors."""
    (directory / "plain").mkdir(parents=True)
    arrays = [tensor.numpy() for tensor in tensors]
    began, began_core = time.perf_counter(), time.thread_time()
    for step in range(STEPS):
        file = os.open(directory / "plain" / str(step), os.O_WRONLY | os.O_CREAT, 0o644)
        for array in arrays:
            os.write(file, array)
        os.close(file)
    return Cost(time.thread_time() - began_core, time.perf_counter() - began)


def fresh(parent: Path | None, measure: Callable[[Path], Cost]) -> Cost:
    """Measure in a directory of its own, with nothing waiting for the disk."""
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        os.sync()
        cost = measure(Path(directory))
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir()
    return cost


def compared(dumped: list[Cost], plain: list[Cost], amount: float) -> dict[str, object]:
    """Both in units per second of one core, and the medians of the ratios."""
    core = [p.core / d.core for d, p in zip(dumped, plain, strict=True)]
    wall = [p.wall / d.wall for d, p in zip(dumped, plain, strict=True)]
    return {
        "dump": round(amount / statistics.median(cost.core for cost in dumped)),
        "plain": round(amount / statistics.median(cost.core for cost in plain)),
        "ratio": round(statistics.median(core), 2),
        "wall_dump": round(amount / statistics.median(cost.wall for cost in dumped)),
        "wall_plain": round(amount / statistics.median(cost.wall for cost in plain)),
        "wall_ratio": round(statistics.median(wall), 2),
    }


def measure_files(rounds: int, parent: Path | None) -> dict[str, object]:
    """Small files, asynchronously, against the loop."""
    nodes = make_nodes(FILES)
    tensors = [torch.randn(SMALL) for _ in nodes]
    names = [f"addmm.{n.name.replace('/', '_')}.0.0.1700000000000000.output.0" for n in nodes]
    data = bytes(128 + SMALL * 4)
    dumped, plain = [], []
    for _ in range(rounds):
        dumped.append(fresh(parent, lambda folder: dump(folder, nodes, tensors)))
        plain.append(fresh(parent, lambda folder: plain_files(folder, names, data)))
    return {"what": "files per s"} | compared(dumped, plain, FILES * STEPS)


def measure_stream(rounds: int, parent: Path | None) -> dict[str, object]:
    """One packed file per step, against plain writes."""
    nodes = make_nodes(PIECES)
    tensors = [torch.randn(LARGE) for _ in nodes]
    dumped, plain = [], []
    for _ in range(rounds):
        dumped.append(fresh(parent, lambda f: dump(f, nodes, tensors, file_format="bin")))
        plain.append(fresh(parent, lambda folder: plain_stream(folder, tensors)))
    megabytes = PIECES * LARGE * 4 * STEPS / 1e6
    return {"what": "stream, MB per s"} | compared(dumped, plain, megabytes)


def measure_packed_small(rounds: int, parent: Path | None) -> dict[str, object]:
    """Small tensors, packed."""
    nodes = make_nodes(FILES)
    tensors = [torch.randn(SMALL) for _ in nodes]
    dumped = [
        fresh(parent, lambda f: dump(f, nodes, tensors, file_format="bin")) for _ in range(rounds)
    ]
    values = round(FILES * STEPS / statistics.median(cost.core for cost in dumped))
    return {"what": "packed small tensors per s", "dump": values}


def measure_idle(rounds: int, parent: Path | None) -> dict[str, object]:
    """What a dump adds to a step that it does not dump, whatever the number of operators."""
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        layer(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    added = []
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        config = write_config(Path(directory), iteration="1000000000")
        for _ in range(rounds):
            plain = fastest(step, 300)
            with opscope.start(dump=config):
                step()
                added.append(fastest(step, 300) - plain)
    extra = statistics.median(added)
    tiny_gpt = fastest(WORKLOADS["tiny_gpt"][0](), 50)
    return {
        "what": "steps that are not dumped",
        "added_us": round(extra * 1e6),
        "tiny_gpt_ms": round(tiny_gpt * 1e3, 2),
        "tiny_gpt_ratio": round(1 + extra / tiny_gpt, 3),
    }


def fastest(step: Callable[[], None], count: int) -> float:
    """The process time of the fastest of some steps."""
    times = []
    for _ in range(count):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--what", action="append", choices=("files", "stream", "packed", "idle"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    wanted = args.what or ("files", "stream", "packed", "idle")
    if "files" in wanted:
        print(json.dumps(measure_files(args.rounds, args.directory)), flush=True)
    if "stream" in wanted:
        print(json.dumps(measure_stream(args.rounds, args.directory)), flush=True)
    if "packed" in wanted:
        print(json.dumps(measure_packed_small(args.rounds, args.directory)), flush=True)
    if "idle" in wanted:
        print(json.dumps(measure_idle(args.rounds * 2, args.directory)), flush=True)


if __name__ == "__main__":
    main()

"""What the recorder alone costs a step, and what its parts do, told apart from a noisy machine.

    python benchmarks/recorder.py [--workload gpt|tiny_gpt|"gpt2 1 256"] [--steps N]

In one process each mode has a step in turn, in an order by chance; what is switched on and off
is not timed. That says less of a whole run than `what_users_run.py --mode "recorder only"`, and
more on a machine that others use too. Ratios are of process time and of the clock, by the median,
to steps without anything; how far "plain again" is from 1 tells what they are worth. "floor" is a
callback of torch that does nothing, for all calls or for those that no operator of torch's makes
itself.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from observer_floor import library
from workloads import make

from opscope.record.recorder import Recorder
from opscope.settings.recorder import RecorderSettings

WARM = 20
Switch = tuple[Callable[[], object], Callable[[], object]]
"""What switches a mode on, and off."""


def nothing() -> None:
    """There is nothing to switch."""


def modes(recorder: Recorder) -> dict[str, Switch]:
    """The modes by name; the recorder is off."""
    floor, observe, program = library(), recorder.writer.observe, recorder.program
    parts = {
        "observer": (lambda: observe(True), lambda: observe(False)),
        "program around": (program.resume, program.uninstall),
    }
    return {
        "plain": (nothing, nothing),
        "plain again": (nothing, nothing),
        "floor": (lambda: floor.observe(False, False, False), floor.look_away),
        "floor, inputs of outermost": (lambda: floor.observe(True, False, True), floor.look_away),
        **parts,
        "recorder": (
            lambda: [on() for on, _ in parts.values()],
            lambda: [off() for _, off in parts.values()],
        ),
    }


def measure(workload: str, steps: int) -> dict[str, object]:
    """Take turns, and compare."""
    gc.freeze()
    gc.disable()
    training, chance = make(workload), random.Random(0)
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(RecorderSettings(enable=True), Path(folder), rank=0)
        recorder.start()
        for _ in range(WARM):
            training()
        recorder.writer.observe(False)
        recorder.program.uninstall()
        switches = modes(recorder)
        for _ in range(steps):
            for mode in chance.sample(list(switches), len(switches)):
                on, off = switches[mode]
                on()
                before, head = (time.process_time(), time.perf_counter()), recorder.ring["head"]
                training()
                took = time.process_time() - before[0], time.perf_counter() - before[1]
                records = recorder.ring["head"] - head
                off()
                times[mode].append(took)
                if mode == "recorder":
                    in_a_step = records
        recorder.withdraw()
    plain = [statistics.median(each) for each in zip(*times["plain"], strict=True)]
    return {
        "workload": workload,
        "plain_ms": round(plain[0] * 1e3, 3),
        "records": in_a_step,
        **{mode: ratios(found, plain) for mode, found in times.items() if mode != "plain"},
    }


def ratios(times: list[tuple[float, float]], plain: list[float]) -> list[float]:
    """By process time and by the clock."""
    medians = [statistics.median(each) for each in zip(*times, strict=True)]
    return [round(here / there, 3) for here, there in zip(medians, plain, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", action="append", help="as `workloads.make` has it")
    parser.add_argument("--steps", type=int, default=200, help="of each mode")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for workload in args.workload or ("tiny_gpt", "gpt"):
        print(json.dumps(measure(workload, args.steps)), flush=True)


if __name__ == "__main__":
    main()

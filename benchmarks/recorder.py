"""What the recorder alone costs a step, told apart from a noisy machine.

    python benchmarks/recorder.py [--workload gpt|tiny_gpt|"gpt2 1 256"] [--pairs N]

Steps with and without it take turns in one process, which says less of a whole run than
`what_users_run.py --mode "recorder only"` and more on a machine that others use too. Printed is the
ratio of the medians, of process time, and of the least.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from workloads import Training, make

from opscope.record.recorder import Recorder
from opscope.settings.recorder import RecorderSettings


def seconds(training: Training) -> float:
    """The process time of one step."""
    began = time.process_time()
    training()
    return time.process_time() - began


def measure(workload: str, pairs: int) -> dict[str, object]:
    """Take turns, and compare."""
    gc.freeze()
    gc.disable()
    training = make(workload)
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(RecorderSettings(enable=True), Path(folder), rank=0)
        recorder.start()
        for pair in range(pairs + 5):
            for on in (True, False):
                took = seconds(training)
                if pair >= 5:
                    times[on].append(took)
                recorder.writer.observe(not on)
                (recorder.program.uninstall if on else recorder.program.resume)()
        records = recorder.ring["head"] / (pairs + 5)
        recorder.withdraw()
    return {
        "workload": workload,
        "plain_ms": round(statistics.median(times[False]) * 1e3, 3),
        "records": round(records),
        "ratio": round(statistics.median(times[True]) / statistics.median(times[False]), 3),
        "ratio_of_least": round(min(times[True]) / min(times[False]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", action="append", help="as `workloads.make` has it")
    parser.add_argument("--pairs", type=int, default=300)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for workload in args.workload or ("tiny_gpt", "gpt"):
        print(json.dumps(measure(workload, args.pairs)), flush=True)


if __name__ == "__main__":
    main()

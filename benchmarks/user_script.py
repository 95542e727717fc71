"""A training as a user has it, that says in the end what its steps took.

    python benchmarks/user_script.py WORKLOAD STEPS

It knows nothing of opscope: other benchmarks run it by `python` and by `opscope run`. The last line
it prints is JSON, in milliseconds: the process time and the wall time of the first step and, of the
steps after the first third, the median and the mean of both. Some work is done once in many steps,
which only the mean tells.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from itertools import pairwise

import torch
import workloads


def main() -> None:
    words, count = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = workloads.make(words)
    moments = [(time.process_time(), time.perf_counter())]
    for _ in range(count):
        step()
        moments.append((time.process_time(), time.perf_counter()))
    found = {}
    for index, clock in enumerate(("process", "wall")):
        at = [moment[index] * 1e3 for moment in moments]
        times = [late - early for early, late in pairwise(at)]
        found[f"first_{clock}_ms"] = times[0]
        later = times[max(1, count // 3) :]
        found[f"{clock}_ms"] = statistics.median(later)
        found[f"mean_{clock}_ms"] = statistics.fmean(later)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

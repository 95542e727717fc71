"""What any observer of operators costs at least: callbacks of torch that do nothing.

    python benchmarks/observer_floor.py [--workload tiny_gpt] [--rounds 12]

Blocks of steps take turns, without and with a callback that is given nothing, the inputs of every
call, inputs and outputs, or the inputs of calls that no operator of torch's makes itself. A ratio
is that of the same round: median, least and largest.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from pathlib import Path

import torch
from programs import processor, spread
from workloads import WORKLOADS, Training

from opscope.native.build import build

KINDS = {
    "nothing": (False, False, False),
    "inputs": (True, False, False),
    "inputs and outputs": (True, True, False),
    "inputs, outermost calls": (True, False, True),
}
SOURCE = Path(__file__).with_suffix(".cpp")
HOOK = Path(__file__).resolve().parent.parent / "src/opscope/native/hook"


def library() -> ctypes.CDLL:
    """The callbacks, built for this torch."""
    root = Path(torch.__file__).parent
    path, reason = build(
        "observer_floor",
        [SOURCE],
        include=[root / "include", HOOK],
        flags=["-std=c++20", "-O2", "-DNDEBUG"],
        headers={},
        libraries=[f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"],
        own_runtime=False,
    )
    if path is None:
        raise SystemExit(f"cannot be built: {reason}")
    made = ctypes.CDLL(str(path))
    made.count.restype = ctypes.c_int64
    return made


def block(step: Training, count: int) -> float:
    """The median of so many steps, in milliseconds of process time."""
    times = []
    for _ in range(count):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, default="tiny_gpt")
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    observers = library()
    make, count = WORKLOADS[args.workload]
    step = make()
    block(step, count)
    plain: list[float] = []
    ratios: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        plain.append(block(step, count))
        for kind, found in ratios.items():
            observers.observe(*KINDS[kind])
            found.append(block(step, count) / plain[-1])
            observers.look_away()
    before = observers.count()
    observers.observe(False, False, False)
    step()
    observers.look_away()
    print(
        json.dumps(
            {
                "processor": processor(),
                "torch": torch.__version__,
                "calls": observers.count() - before,
                "plain_ms": spread(plain),
                **{kind: spread(found, 3) for kind, found in ratios.items()},
            }
        )
    )


if __name__ == "__main__":
    main()

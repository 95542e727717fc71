"""What a step costs when a script is run as users run it: `opscope run [options] script.py`.

    python benchmarks/what_users_run.py [--workload gpt|tiny_gpt|alexnet …] [--mode MODE …]

Whole processes take turns: in each round the script runs plainly and then in every mode, and tells
what its steps took after the start-up. A ratio is that of the same round; printed are the median
over the rounds and, in brackets, the least and the largest, by process time of the training process
and by the clock. The dump configs are those of MindSpore's guides, with all their keys, for every
iteration; tensors are dumped in fewer steps.
"""

from __future__ import annotations

import argparse
import json

from programs import PLAIN, Mode, Times, facts, run, spread
from workloads import WORKLOADS

COMMON = {
    "op_debug_mode": 0,
    "dump_mode": 0,
    "net_name": "ResNet50",
    "iteration": "all",
    "saved_data": "tensor",
    "input_output": 0,
    "kernels": ["Default/Conv-op12"],
    "support_device": [0, 1, 2, 3, 4, 5, 6, 7],
    "statistic_category": ["max", "min", "l2norm"],
}
SYNCHRONOUS = {"enable": True, "trans_flag": True, "stat_calc_mode": "host"}
ASYNCHRONOUS = {"enable": False, "trans_flag": True}


def dump(e2e: dict[str, object], **common: object) -> Mode:
    """The config of the guides, but for these keys."""
    sections = {"common_dump_settings": {**COMMON, **common}, "e2e_dump_settings": e2e}
    return Mode(config=sections)


MODES = {
    "default": Mode(),
    "no watchpoints": Mode(("--watch", "none")),
    "quick": Mode(("--quick",)),
    "recorder only": Mode(("--no-stats",)),
    "recorder only, without native code": Mode(
        ("--no-stats",), environment={"OPSCOPE_NATIVE": "0"}
    ),
    "default without recorder": Mode(("--no-record",)),
    "not these steps": Mode(("--steps", "1000000")),
    "without native code": Mode(environment={"OPSCOPE_NATIVE": "0"}),
    "dump statistic, synchronous": dump(SYNCHRONOUS, saved_data="statistic"),
    "dump statistic, asynchronous": dump(ASYNCHRONOUS, saved_data="statistic"),
    "dump statistic, outputs": dump(SYNCHRONOUS, saved_data="statistic", input_output=2),
    "dump statistic, md5": dump(
        SYNCHRONOUS, saved_data="statistic", statistic_category=["max", "min", "md5"]
    ),
    "dump statistic, kernels": dump(
        SYNCHRONOUS, saved_data="statistic", dump_mode=1, kernels=["Linear"]
    ),
    "dump statistic, arguments": dump(
        {**SYNCHRONOUS, "save_kernel_args": True}, saved_data="statistic"
    ),
    "dump of other steps": dump(SYNCHRONOUS, iteration="1000000"),
    "dump tensor, synchronous": dump(SYNCHRONOUS),
    "dump tensor, asynchronous": dump(ASYNCHRONOUS),
    "dump tensor, packed": dump(ASYNCHRONOUS, file_format="bin"),
    "dump full, synchronous": dump(SYNCHRONOUS, saved_data="full"),
    "dump full, asynchronous": dump(ASYNCHRONOUS, saved_data="full"),
    "dump of overflows": dump(SYNCHRONOUS, op_debug_mode=3),
    "dump of exceptions": dump(SYNCHRONOUS, op_debug_mode=4),
}
STEPS = {"gpt": 12, "tiny_gpt": 90, "alexnet": 30}
GPU_STEPS = {"gpt2 8 1024": 40, "gpt2 1 256": 40, "gpt2 8 1024 compiled": 40}
"""On a GPU only: batch, length, and whether it is compiled."""
STEPS_WITH_TENSORS = 9
USUAL = ("default", "no watchpoints", "not these steps", "dump statistic, synchronous")


def steps_of(workload: str, mode: str) -> int:
    """How many steps a run has."""
    writes_tensors = mode.startswith(("dump tensor", "dump full"))
    return STEPS_WITH_TENSORS if writes_tensors else {**STEPS, **GPU_STEPS}[workload]


def measure(workload: str, modes: list[str], rounds: int) -> None:
    """Print one line per mode."""
    plain: list[Times] = []
    watched: dict[str, list[Times]] = {mode: [] for mode in modes}
    for _ in range(rounds):
        plain.append(run(PLAIN, workload, steps_of(workload, "")))
        for mode, times in watched.items():
            times.append(run(MODES[mode], workload, steps_of(workload, mode)))
    report(workload, "plain", plain, plain)
    for mode, times in watched.items():
        report(workload, mode, plain, times)


def report(workload: str, mode: str, plain: list[Times], times: list[Times]) -> None:
    """One line of JSON."""
    line: dict[str, object] = {"workload": workload, "mode": mode}
    for clock in ("process", "mean_process", "wall", "mean_wall"):
        key = f"{clock}_ms"
        pairs = zip(plain, times, strict=True)
        line[f"{clock}_ratio"] = spread([after[key] / before[key] for before, after in pairs])
        line[key] = spread([each[key] for each in times])
    line["first_process_ms"] = spread([each["first_process_ms"] for each in times], 0)
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices={**STEPS, **GPU_STEPS}, action="append")
    parser.add_argument("--mode", choices=MODES, action="append", help="all of them if not given")
    parser.add_argument("--usual", action="store_true", help="only what is run most")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(json.dumps(facts()), flush=True)
    for workload in args.workload or WORKLOADS:
        measure(workload, args.mode or list(USUAL if args.usual else MODES), args.rounds)


if __name__ == "__main__":
    main()

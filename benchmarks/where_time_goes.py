"""What each part of opscope adds to an operator on the CPU, in microseconds; one thread.

    python benchmarks/where_time_goes.py [--workload tiny_gpt] [--rounds 20] [--python] [--markdown]

The parts are added one after the other: the hook with nothing wanted, rows of inputs from outside
the step and of outputs without reading any, reading them, a run directory. Each round runs a
block of every stage and takes the fastest step of each, in process time; what a part adds is the
median over the rounds of the difference to the stage before it, per operator. `--python` does the
same without the native hook.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import pairwise

import torch
from others import Count
from watching import OUTPUTS, WATCHES, CountingEngine, Wanting, capturing, prepare, quiet
from workloads import WORKLOADS, Training

STAGES = {
    "capture": "names, scopes, stacks, edges; nothing wanted",
    "outside": "+ rows of parameters and batch, not read",
    "rows": "+ rows of outputs, not read",
    "numbers": "+ the values of all rows read",
    "stats": "+ run directory",
}
"""Mode → what it adds to the one before."""
WARM = 4
"""Steps of a block that are not counted."""
Result = dict[str, object]


def block(step: Training, mode: str, count: int) -> float:
    """The fastest step of a block, in seconds of process time."""
    times = []
    with quiet(), WATCHES[mode]() as end_step:
        for number in range(WARM + count):
            began = time.process_time()
            step()
            end_step()
            if number >= WARM:
                times.append(time.process_time() - began)
    return min(times)


def count_operators(step: Training) -> int:
    """Operators of a step."""
    with Count() as mode:
        step()
    return mode.operators


def count_rows(step: Training) -> dict[str, int]:
    """Rows of a step, and what is read for them."""
    engine, sink = CountingEngine(), Wanting(OUTPUTS)
    with quiet(), capturing(sink, engine):
        step()
        step()
        engine.reads.clear()
        step()
        reads = dict(engine.reads)
    return {"rows": sink.rows[2], **reads}


def measure(step: Training, modes: list[str], count: int, rounds: int) -> dict[str, list[float]]:
    """Mode → the fastest step of each round, in seconds."""
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode, values in times.items():
            values.append(block(step, mode, count))
    return times


def differences(
    times: dict[str, list[float]], stages: dict[str, str], operators: int
) -> list[Result]:
    """What each stage adds to the one before it, in µs per operator, and all of them together."""
    found = []
    order = ["plain", *stages]
    steps = [(stages[mode], before, mode) for before, mode in pairwise(order)]
    if len(steps) > 1:
        steps.append(("all of it", "plain", order[-1]))
    for label, before, mode in steps:
        added = [
            (late - early) / operators * 1e6
            for early, late in zip(times[before], times[mode], strict=True)
        ]
        quartiles = statistics.quantiles(added, n=4)[::2] if len(added) > 1 else added * 2
        found.append(
            {
                "part": label,
                "mode": mode,
                "step_ms": round(statistics.median(times[mode]) * 1e3, 3),
                "added_us": round(statistics.median(added), 2),
                "quartiles": [round(quartile, 2) for quartile in quartiles],
            }
        )
    return found


def show(results: list[Result], markdown: bool) -> None:
    """Lines of JSON, or a table."""
    if not markdown:
        for result in results:
            print(json.dumps(result), flush=True)
        return
    print("\n| part | step, ms | µs per operator |\n|---|---|---|")
    for result in results:
        low, high = result["quartiles"]  # type: ignore[misc]
        print(
            f"| {result['part']} | {result['step_ms']:.3g} "
            f"| {result['added_us']:.2f} [{low:.2f}, {high:.2f}] |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, default="tiny_gpt")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--python", action="store_true", help="also without the native hook")
    parser.add_argument("--markdown", action="store_true", help="tables instead of lines of JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with quiet():
        facts = prepare()
    make, count = WORKLOADS[args.workload]
    step = make()
    step()
    operators, rows = count_operators(step), count_rows(step)
    print(json.dumps({**facts, "operators": operators, **rows}), flush=True)
    ways = ["", "-python"] if args.python else [""]
    modes = ["plain", "empty", *(mode + way for way in ways for mode in STAGES)]
    times = measure(step, modes, count, args.rounds)
    plain = statistics.median(times["plain"])
    plain_us = round(plain / operators * 1e6, 2)
    print(json.dumps({"plain_ms": round(plain * 1e3, 3), "plain_us": plain_us}), flush=True)
    show(differences(times, {"empty": "an empty Python mode"}, operators), args.markdown)
    for way in ways:
        stages = {mode + way: label for mode, label in STAGES.items()}
        show(differences(times, stages, operators), args.markdown)


if __name__ == "__main__":
    main()

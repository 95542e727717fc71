"""How much slower a step is under opscope: blocks of plain and watched steps in turn, one thread.

    python benchmarks/step_ratio.py [--workload gpt|tiny_gpt|alexnet …] [--mode MODE …] [--markdown]

Modes: `empty` (an empty Python dispatch mode), `naive` (statistics of every output by torch
operators), `capture` (names, scopes, stacks, edges; no values), `idle` (loaded, but not recording
these steps), `stats` (statistics of every output into a run directory), `watch` (and the
recommended watchpoints), `capture-python` and
`stats-python` (the same without the native hook), and where `mindstudio-probe` is installed
`msprobe-L1` and `msprobe-mix` (its statistics; each round in a process of its own, against the
plain steps of that process).

Each round runs a block of every mode and takes the fastest step of each, in process time; the ratio
is the median over the rounds of that to the plain block of the same round, with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence

import torch
from others import MSPROBE_LEVELS, has_msprobe, msprobe_step
from watching import WATCHES, prepare, quiet
from workloads import WORKLOADS, Training

OWN = ("empty", "naive", "idle", "capture", "capture-python", "stats", "watch", "stats-python")
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


def measure(workload: str, modes: Sequence[str], rounds: int, probe_rounds: int) -> list[Result]:
    """Print one line per mode, and return them."""
    torch.manual_seed(0)
    make, count = WORKLOADS[workload]
    step = make()
    own = [mode for mode in modes if mode in WATCHES]
    pairs: dict[str, list[tuple[float, float]]] = {mode: [] for mode in ("plain", *modes)}
    for _ in range(rounds):
        plain = block(step, "plain", count)
        pairs["plain"].append((plain, plain))
        for mode in own:
            pairs[mode].append((plain, block(step, mode, count)))
    for mode in modes:
        if mode in MSPROBE_LEVELS:
            pairs[mode] = [msprobe_step(workload, mode, count) for _ in range(probe_rounds)]
    return [result(workload, mode, values) for mode, values in pairs.items()]


def result(workload: str, mode: str, pairs: list[tuple[float, float]]) -> Result:
    """Of the plain and watched times of the rounds."""
    ratios = [watched / plain for plain, watched in pairs]
    quartiles = statistics.quantiles(ratios, n=4)[::2] if len(ratios) > 1 else ratios * 2
    found: Result = {
        "workload": workload,
        "mode": mode,
        "ms": round(statistics.median(watched for _, watched in pairs) * 1e3, 3),
        "ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(quartile, 3) for quartile in quartiles],
    }
    print(json.dumps(found), flush=True)
    return found


def table(results: Sequence[Result]) -> str:
    """Modes by workloads, in Markdown."""
    workloads = list(dict.fromkeys(found["workload"] for found in results))
    by_mode: dict[object, dict[object, str]] = {}
    for found in results:
        low, high = found["quartiles"]  # type: ignore[misc]
        cell = f"{found['ratio']:.2f} [{low:.2f}, {high:.2f}]"
        if found["mode"] == "plain":
            cell = f"{found['ms']:.4g} ms"
        by_mode.setdefault(found["mode"], {})[found["workload"]] = cell
    lines = [f"| mode | {' | '.join(map(str, workloads))} |", "|---" * (len(workloads) + 1) + "|"]
    lines += [
        f"| {mode} | {' | '.join(cells.get(workload, '') for workload in workloads)} |"
        for mode, cells in by_mode.items()
    ]
    return "\n".join(lines)


def main() -> None:
    modes = [*OWN, *(MSPROBE_LEVELS if has_msprobe() else ())]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--mode", choices=modes, action="append", help="all of them if not given")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--msprobe-rounds", type=int, default=5, help="processes per level")
    parser.add_argument("--markdown", action="store_true", help="a table at the end")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with quiet():
        facts = prepare()
    print(json.dumps(facts), flush=True)
    results = []
    for workload in args.workload or WORKLOADS:
        results += measure(workload, args.mode or modes, args.rounds, args.msprobe_rounds)
    if args.markdown:
        print(f"\n{', '.join(f'{name}: {value}' for name, value in facts.items())}\n")
        print(table(results))


if __name__ == "__main__":
    main()

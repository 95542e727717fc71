"""Whether an operator costs the same in a short and a long step, with few and many parameters.

    python benchmarks/scaling.py [--rounds 3] [--large]

Whole scripts, plainly and by `opscope run`, in turn: steps of 1,000 to 200,000 operators, and of 10
to 10,000 parameters by SGD and AdamW, one by one and by foreach operators. Printed is what is added
to a step in process time per operator, after the start-up and for the first step, which is where
operators are met for the first time: the median over the rounds, in brackets the least and the
largest. What is added must not grow with the step.
"""

from __future__ import annotations

import argparse
import json

import torch
import workloads
from others import Count
from programs import PLAIN, Mode, facts, run, spread

OPERATORS = (1_000, 10_000, 50_000)
PARAMETERS = (10, 100, 1_000)
LARGE_OPERATORS, LARGE_PARAMETERS = (200_000,), (10_000,)
OPTIMIZERS = ("sgd", "sgd foreach", "adamw", "adamw foreach")
OPERATORS_PER_RUN = 200_000


def count_operators(words: str) -> int:
    """Operators of a step, once the optimizer has its state."""
    step = workloads.make(words)
    step()
    with Count() as mode:
        step()
    return mode.operators


def measure(words: str, rounds: int) -> None:
    """Print one line."""
    operators = count_operators(words)
    steps = max(12, min(60, OPERATORS_PER_RUN // operators))
    pairs = [(run(PLAIN, words, steps), run(Mode(), words, steps)) for _ in range(rounds)]
    line: dict[str, object] = {"workload": words, "operators": operators}
    for name, key in (("added_us", "process_ms"), ("first_added_us", "first_process_ms")):
        added = [(after[key] - before[key]) / operators * 1e3 for before, after in pairs]
        line[name] = spread(added, 1)
    line["ratio"] = spread([after["process_ms"] / before["process_ms"] for before, after in pairs])
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also the largest, which take minutes")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(facts()), flush=True)
    sizes = OPERATORS + LARGE_OPERATORS * args.large
    counts = PARAMETERS + LARGE_PARAMETERS * args.large
    for words in [
        *(f"operators {size}" for size in sizes),
        *(f"parameters {count} {how}" for how in OPTIMIZERS for count in counts),
    ]:
        measure(words, args.rounds)


if __name__ == "__main__":
    main()

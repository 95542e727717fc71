"""Whether an operator costs the same in a short and in a long step.

    python benchmarks/operators_per_step.py

Steps of 500 to 20,000 operators of 64 elements, plain and watched in turn in one process; what
watching adds to an operator must stay flat.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable

import torch

from opscope.capture.torch_capture import TorchCapture
from opscope.events import BaseSink
from opscope.pipeline import Pipeline
from opscope.stats.engine import Engine

SIZES = (500, 1000, 2000, 5000, 10_000, 20_000)
TOTAL = 60_000
"""Operators measured per size."""


def make_step(operators: int) -> tuple[Callable[[], None], torch.optim.Optimizer]:
    """A step of about this many operators: half forward, half backward."""
    weight = torch.nn.Parameter(torch.randn(64))
    optimizer = torch.optim.SGD([weight], lr=1e-4)
    factor = torch.ones(64)

    def step() -> None:
        value = weight
        for _ in range(operators // 2):
            value = value * factor
        value.sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, optimizer


def per_operator(step: Callable[[], None], operators: int) -> float:
    """The lowest process time per operator, in microseconds, over some steps."""
    best = float("inf")
    for _ in range(max(3, TOTAL // operators)):
        began = time.process_time()
        step()
        best = min(best, time.process_time() - began)
    return best / operators * 1e6


def main() -> None:
    torch.set_num_threads(1)
    for operators in SIZES:
        step, optimizer = make_step(operators)
        plain = per_operator(step, operators)
        capture = TorchCapture(Pipeline([BaseSink()], Engine()), lambda: 0)
        capture.start()
        step()
        watched = per_operator(step, operators)
        capture.stop()
        del step, optimizer
        gc.collect()  # an optimizer that lingers would be waited for
        result = {"operators": operators, "plain_us": plain, "watched_us": watched}
        result["added_us"] = watched - plain
        print(json.dumps({k: round(v, 3) for k, v in result.items()}), flush=True)


if __name__ == "__main__":
    main()

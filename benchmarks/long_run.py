"""A run as a long training would leave it, written by the real writer with made-up numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from opscope.calls import Calls
from opscope.events import Frame, LossRecord, Node, Phase, Stack, StepRecord
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.writer import RunWriter
from opscope.stats.record import OUTPUT, ROW_DTYPE, VALID

_PER_BLOCK = 20


def write_run(
    directory: Path,
    nodes: int,
    steps: int,
    budget: int,
    node_of: Callable[[int], Node] | None = None,
) -> None:
    """A run of one rank: every node has one output of 64 x 64 in each step."""
    writer = RunWriter(directory, script="made.py", budget=budget)
    writer.open(0)
    made = [(node_of or _node)(number) for number in range(nodes)]
    for node in made:
        writer.node(node)
    writer.kind(0, "float32", (64, 64))
    memory = writer.row_memory()
    assert isinstance(memory, SegmentWriter)
    rows = np.zeros(nodes, ROW_DTYPE)
    rows["valid"], rows["io"], rows["count"] = VALID, OUTPUT, 4096
    rows["node"] = rows["call"] = np.arange(nodes)
    numbers = np.random.default_rng(0).normal(size=(64, nodes))
    calls = Calls(made)
    for step in range(steps):
        rows["step"], rows["mean"] = step, numbers[step % 64]
        rows["min"], rows["max"] = rows["mean"] - 1, rows["mean"] + 1
        memory.append(rows)
        writer.step_end(StepRecord(step, calls, [LossRecord(1 / (step + 1), made[-1])], 0.1))
    writer.close()


def _node(number: int) -> Node:
    layer, place = divmod(number, _PER_BLOCK)
    scope = f"Default/network-Net/blocks-ModuleList/{layer}-Block/fc{place % 4}-Linear"
    stack = Stack(number // 4, (Frame("made.py", 1 + number // 4, "forward", True),))
    name = f"{scope}/addmm-op{place // 4}"
    return Node(
        number, 0, name, "addmm", "aten.addmm.default", scope, "Linear", Phase.FORWARD, stack
    )

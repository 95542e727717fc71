"""A small training step by hand: real events, no framework."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # also where pytest is not

from helpers.made_rows import MadeRows
from opscope.calls import Calls, note_sources
from opscope.events import (
    IO,
    Call,
    Frame,
    LossRecord,
    Node,
    Output,
    Outside,
    Phase,
    Stack,
    StepRecord,
    ValueStats,
)
from opscope.rundir.writer import RunWriter
from opscope.stats.row import Row

SCRIPT = "loss = criterion(model(x), y)\nloss.backward()\n"


def row(mean: float = 0.5, **changes: Any) -> Row:
    """A row with a recognisable mean."""
    return Row(6, -1.0, 2.0, mean, 0.75, 3.0, 1.25, 0, 0, 0, 1, 2, 3)._replace(**changes)


class MadeRun:
    """Feeds a writer with the events of a model of two operators, a backward and an update."""

    def __init__(
        self, directory: Path, rank: int = 0, source: str = "train.py", **kwargs: Any
    ) -> None:
        self.writer = RunWriter(directory, script="train.py", command=["train.py", "--x"], **kwargs)
        self.rank = rank
        stack = Stack(
            0, (Frame("/torch/linear.py", 9, "forward", False), Frame(source, 1, "main", True))
        )
        scope = "Default/network-Net/fc-Linear"
        self.linear = Node(
            0,
            0,
            f"{scope}/addmm-op0",
            "addmm",
            "aten.addmm.default",
            scope,
            "Linear",
            Phase.FORWARD,
            stack,
        )
        self.linear.arguments = {"beta": "1", "alpha": "1"}
        self.linear.sources = [
            Outside("parameter", "fc.weight", "fc.weight"),
            Outside("batch", "x"),
        ]
        self.loss = Node(
            1,
            0,
            "Default/mse_loss-op0",
            "mse_loss",
            "aten.mse_loss.default",
            "Default",
            "",
            Phase.FORWARD,
            stack,
        )
        self.loss.sources = [Output(self.linear, 0)]
        gradients = f"Gradients/{scope}"
        self.backward = Node(
            2,
            0,
            f"{gradients}/addmm-op0",
            "addmm",
            "aten.addmm.default",
            gradients,
            "Linear",
            Phase.BACKWARD,
            stack,
            forward=self.linear,
        )
        self.backward.sources = [Output(self.loss, 0)]
        optimizer = "Default/optimizer-SGD"
        self.update = Node(
            3,
            0,
            f"{optimizer}/_foreach_add_-op0",
            "_foreach_add_",
            "aten._foreach_add_.List",
            optimizer,
            "SGD",
            Phase.OPTIMIZER,
            Stack(1, ()),
        )
        self.update.sources = [
            Outside("parameter", "fc.weight", "fc.weight"),
            Output(self.backward, 0),
        ]
        self.nodes = [self.linear, self.loss, self.backward, self.update]
        self.rows = MadeRows(self.writer)
        self._called: set[int] = set()
        self._labelled: dict[int, int] = {}

    def open(self) -> MadeRun:
        """Open the writer; returns self."""
        self.writer.open(self.rank)
        return self

    def call(self, node: Node, step: int, index: int, mean: float) -> None:
        """One call with one input from outside and one output."""
        if node.id not in self._called:
            self._called.add(node.id)
            node.variants = [node.sources]
            self.writer.node(node)
        call = Call(node, step, index, 0, 0)
        if isinstance(node.sources[0], Outside):
            self.rows.deliver([ValueStats(call, IO.INPUT, 0, "bfloat16", (3, 2), row(-mean))])
        if not node.outputs:
            label = "fc.weight" if node is self.update else ""
            node.outputs.append(Output(node, 0, label, label))
        self.rows.deliver([ValueStats(call, IO.OUTPUT, 0, "float32", (2, 3), row(mean))])

    def step(self, step: int, loss: float | None = None) -> None:
        """One whole step; each output's mean is 100 * step + its place in the step."""
        self.writer.step_begin(step)
        for index, node in enumerate(self.nodes):
            self.call(node, step, index, 100.0 * step + index)
        value = 1.0 / (step + 1) if loss is None else loss
        losses = [LossRecord(value, self.loss, 1)]
        calls = Calls(list(self.nodes))
        self._renew(calls)
        self.writer.step_end(StepRecord(step, calls, losses, 0.25))

    def _renew(self, calls: Calls) -> None:
        """Note what is other than when nodes were first told of, or than in the step before."""
        for call, node in enumerate(self.nodes):
            sources = node.sources
            if sources != node.variants[node.variant]:
                note_sources(calls, call, node, sources)
            labelled = sum(bool(output.subject) for output in node.outputs)
            if self._labelled.get(node.id, 0) != labelled:
                self._labelled[node.id] = labelled
                calls.renewed.append(node)


def write_run(directory: Path, rank: int = 0, steps: int = 3, **kwargs: Any) -> MadeRun:
    """A whole, finished run; the last loss is NaN."""
    made = MadeRun(directory, rank, **kwargs).open()
    for step in range(steps):
        made.step(step, math.nan if step == steps - 1 else None)
    made.writer.close()
    return made

"""A sink that keeps copies of everything, and a block that is watched with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from opscope.capture.torch_capture import TorchCapture
from opscope.events import (
    BaseSink,
    Call,
    Node,
    Outside,
    PassingValue,
    StepRecord,
    ValueStats,
    Want,
)
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.stats.engine import Engine


@dataclass
class Seen:
    """One call of a node with copies of everything it touched."""

    node: Node
    step: int
    index: int
    stream: int
    pass_number: int = 0
    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    sources: dict[int, object] = field(default_factory=dict)


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that shares nothing with the training."""
    with torch.no_grad():
        return tensor.detach().clone()


class Recorder(BaseSink):
    """A sink that wants everything and keeps copies."""

    def __init__(self, wanted: Want = Want.INPUT_VALUES | Want.OUTPUT_VALUES) -> None:
        self.wanted = wanted
        self.nodes: list[Node] = []
        self.calls: list[Seen] = []
        self.steps: list[StepRecord] = []
        self.rows: list[ValueStats] = []
        self.parameters: list[tuple[int, Outside, torch.Tensor]] = []
        self.rank: int | None = None
        self.closed = False
        self._open: dict[tuple[int, int, int], Seen] = {}

    def open(self, rank: int) -> None:
        self.rank = rank

    def wants(self, node: Node) -> Want:
        return self.wanted

    def node(self, node: Node) -> None:
        self.nodes.append(node)

    def _seen(self, call: Call) -> Seen:
        key = (call.step, call.node.id, call.index)
        if key not in self._open:
            seen = Seen(call.node, call.step, call.index, call.stream, call.pass_number)
            self._open[key] = seen
            self.calls.append(self._open[key])
        return self._open[key]

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        seen = self._seen(call)
        seen.sources = dict(enumerate(call.node.sources))
        for value in values:  # another thread may have called the node since
            seen.sources[value.slot] = value.source
            seen.inputs[value.slot] = copy_of(value.tensor)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        seen = self._seen(call)
        for value in values:
            seen.outputs[value.slot] = copy_of(value.tensor)

    def parameter(self, call: Call, source: Outside, tensor: torch.Tensor) -> None:
        self.parameters.append((call.step, source, copy_of(tensor)))

    def stats(self, rows: Rows) -> None:
        self.rows.extend(rows)

    def step_end(self, record: StepRecord) -> None:
        self.steps.append(record)

    def close(self) -> None:
        self.closed = True

    def of_type(self, op_type: str, step: int = 0, phase: str | None = None) -> list[Seen]:
        """Calls of this operator type in a step, in order."""
        return [
            seen
            for seen in self.calls
            if seen.node.op_type == op_type
            and seen.step == step
            and (phase is None or seen.node.phase.value == phase)
        ]

    def one(self, op_type: str, step: int = 0, phase: str | None = None) -> Seen:
        """The only call of this type in a step."""
        found = self.of_type(op_type, step, phase)
        assert len(found) == 1, [seen.node.name for seen in found]
        return found[0]

    def gradient(self, parameter: str, step: int = 0) -> torch.Tensor:
        """The gradient a parameter ends up with in a step, by the accumulate node's output."""
        found = [
            seen.outputs[0]
            for seen in self.calls
            if seen.node.gradient_of == parameter
            and seen.node.op_type == "AccumulateGrad"
            and seen.step == step
        ]
        assert found, f"no gradient of {parameter} in step {step}"
        return found[-1]


@contextlib.contextmanager
def recording(
    recorder: Recorder | None = None, steps: Callable[[int], bool] = lambda step: True
) -> Iterator[Recorder]:
    """Capture this process within the block."""
    recorder = recorder or Recorder()
    pipeline = Pipeline([recorder], Engine(), steps)
    capture = TorchCapture(pipeline, lambda: 0)
    recorder.capture = capture  # type: ignore[attr-defined]
    capture.start()
    try:
        yield recorder
    finally:
        capture.stop()

"""The numbers and tensors of a call on their way to the sinks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from opscope.capture.guards import quiet
from opscope.capture.observers import Observers
from opscope.capture.operators import Operator
from opscope.capture.threads import Threads
from opscope.events import Call, Node, Output, Outside, PassingValue, Source, Want
from opscope.native import shared
from opscope.pipeline import Pipeline, Plan
from opscope.stats.devices import stream_of
from opscope.stats.record import INPUT, OUTPUT

# Plain ints: testing an enum's flag makes an enum, per operator.
_INPUT_STATS, _OUTSIDE_STATS = int(Want.INPUT_STATS), int(Want.OUTSIDE_STATS)
_FREE = contextlib.nullcontext()
_MANY = shared.MANY_OUTPUTS
"""So many outputs are read together: those of foreach and fused operators."""
_function_modes = torch._C._len_torch_function_stack
BadOutputs = Observers[Node, int, bool, list[Tensor], "list[Tensor | None]"]
"""Told of a node, the index of its call, whether there is a NaN (or may be), inputs and outputs."""


class Delivery:
    """Hands the values of calls to the pipeline: as rows alone, or as tensors where wanted."""

    def __init__(self, pipeline: Pipeline, threads: Threads) -> None:
        self.pipeline = pipeline
        self.step = 0
        self.lock = threading.RLock()
        """Held where several threads run operators."""
        self.late: dict[int, list[tuple[Plan, Call, PassingValue]]] = {}
        """By memory: outputs of collectives that are under way."""
        self.bad_outputs: BadOutputs = Observers()
        """Told of outputs with NaN or Inf while the tensors are at hand, on the CPU."""
        self._threads = threads

    def measure_inputs(
        self, flags: int, node: Node, index: int, tensors: list[Tensor], sources: list[Source]
    ) -> None:
        """Compute the rows of inputs, where no sink wants the tensors themselves."""
        stream = 0
        if tensors and not tensors[0].is_cpu:
            stream = stream_of(tensors[0])
        self.pipeline.meter.moments.extend((index, stream, time.time_ns() // 1000))
        if flags & _INPUT_STATS:
            wanted = [not (s.__class__ is Output and s.uninitialised) for s in sources]
        elif flags & _OUTSIDE_STATS:
            wanted = [s.__class__ is Outside and s.kind != "state" for s in sources]
        else:
            return
        if True not in wanted:
            return
        with self._measuring():
            measure, step, node_id = self.pipeline.meter.measure, self.step, node.id
            for slot, wants in enumerate(wanted):
                if wants:
                    measure(step, node_id, index, INPUT, slot, tensors[slot], sources[slot])

    def measure_outputs(
        self,
        operator: Operator,
        node: Node,
        index: int,
        produced: list[Tensor | None],
        tensors: list[Tensor],
        sources: list[Source],
    ) -> None:
        """Compute the rows of outputs, where no sink wants the tensors themselves."""
        meter = self.pipeline.meter
        with self._measuring():
            meter.found_bad = False
            viewed = _viewed(operator, produced, tensors, sources)
            measure, step, node_id = meter.measure, self.step, node.id
            with meter.engine.gathering() if len(produced) >= _MANY else _FREE:
                for slot, (tensor, output) in enumerate(zip(produced, node.outputs, strict=False)):
                    if tensor is not None and not output.uninitialised:
                        measure(step, node_id, index, OUTPUT, slot, tensor, output, viewed)
            if meter.found_bad:
                self.bad_outputs(node, index, True, tensors, produced)

    def _measuring(self) -> Any:
        """Guards that looking at tensors needs here: our mode is off, others may be on."""
        if self._threads.many or _function_modes():
            return _alone(self.lock)
        return _FREE

    def begin_call(
        self,
        plan: Plan,
        node: Node,
        index: int,
        tensors: list[Tensor],
        pass_number: int,
        sources: list[Source] | None = None,
    ) -> Call:
        """Deliver the inputs of a call that is about to run; its sources, if not the node's."""
        if sources is None:
            sources = node.sources
        stream = 0
        if tensors and not tensors[0].is_cpu:
            stream = stream_of(tensors[0])
        call = Call(node, self.step, index, stream, time.time_ns() // 1000, pass_number)
        values = [
            PassingValue(slot, tensor, source)
            for slot, (tensor, source) in enumerate(zip(tensors, sources, strict=True))
            if not (isinstance(source, Output) and source.uninitialised)
        ]
        if self.late:  # a collective may still be writing to them
            values = [value for value in values if _memory_of(value.tensor) not in self.late]
        with quiet(), self.lock:
            self.pipeline.inputs(plan, call, values)
        return call

    def end_call(
        self,
        plan: Plan,
        call: Call,
        operator: Operator,
        produced: list[Tensor | None],
        tensors: list[Tensor],
        sources: list[Source],
    ) -> None:
        """Deliver the outputs of a call; `tensors` are its inputs, of which the first has a source.

        Native code gives none where no output has the elements of an input.
        """
        values = [
            PassingValue(slot, tensor, None)
            for slot, tensor in enumerate(produced)
            if tensor is not None and not call.node.outputs[slot].uninitialised
        ]
        if operator.asynchronous:
            for value in values:
                self.late.setdefault(_memory_of(value.tensor), []).append((plan, call, value))
            return
        with quiet(), self.lock:
            meter = self.pipeline.meter
            meter.found_bad = False
            viewed = _viewed(operator, produced, tensors, sources)
            self.pipeline.outputs(plan, call, values, viewed)
            if meter.found_bad:
                self.bad_outputs(call.node, call.index, True, tensors, produced)

    def deliver_late(self, tensors: list[Tensor]) -> None:
        """Deliver the outputs of a collective, complete now that something else reads them."""
        for tensor in tensors:
            for plan, call, value in self.late.pop(_memory_of(tensor), ()):
                with quiet():
                    self.pipeline.meter.before_write([value.tensor])  # it has been written to
                    self.pipeline.outputs(plan, call, [value])

    def finish_late(self) -> None:
        """Deliver the outputs of collectives that nothing has read when the step ends."""
        for late in self.late.values():
            for plan, call, value in late:
                with quiet():
                    self.pipeline.outputs(plan, call, [value])
        self.late.clear()

    def measure_slowly(
        self,
        step: int,
        node: int,
        call: int,
        side: int,
        slot: int,
        tensor: Tensor,
        source: Source,
    ) -> None:
        """Compute the row of a value that native code cannot read."""
        with quiet():
            self.pipeline.meter.measure(step, node, call, side, slot, tensor, source)

    def submit(self, tensor: Tensor, address: int) -> bool:
        """Have a device compute the row of a value; return whether it is there already."""
        with quiet():
            return self.pipeline.meter.engine.fill(tensor, address)


def _viewed(
    operator: Operator,
    produced: list[Tensor | None],
    tensors: list[Tensor],
    sources: list[Source],
) -> tuple[Tensor, Source] | None:
    """The input whose very elements the output has, and where that came from."""
    if not (operator.same_elements and produced and tensors and sources):
        return None
    view, base = produced[0], tensors[0]
    if view is None or view.numel() != base.numel() or view.dtype != base.dtype:
        return None
    return base, sources[0]


def _memory_of(tensor: Tensor) -> int:
    try:
        return int(torch._C._storage_id(tensor))
    except NotImplementedError:
        return -id(tensor)


@contextlib.contextmanager
def _alone(lock: threading.RLock) -> Iterator[None]:
    with quiet(), lock:
        yield

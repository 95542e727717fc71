"""Dumps for debugging: only operators whose output holds NaN or Inf, or that raise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.dump import layout
from opscope.dump.format.subject import Label
from opscope.dump.layout import DumpFolder
from opscope.dump.selection.schemas import arguments_of
from opscope.dump.sinks import overflow
from opscope.dump.sinks.dump_sink import DumpSink
from opscope.dump.sinks.held import HeldInput, HeldInputs
from opscope.dump.sinks.overflow import OverflowTable
from opscope.events import Call, Node, PassingValue, StepRecord
from opscope.messages import say, say_once
from opscope.settings.dump_combinations import EXCEPTION, OVERFLOW

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings


def dump_sink(settings: DumpSettings, run_id: str, *arguments: Any, **options: Any) -> DumpSink:
    """The sink that does what `op_debug_mode` says; see `DumpSink` for the arguments."""
    kinds: dict[int, type[DumpSink]] = {OVERFLOW: OverflowSink, EXCEPTION: ExceptionSink}
    return kinds.get(settings.op_debug_mode, DumpSink)(settings, run_id, *arguments, **options)


class _FindingSink(DumpSink):
    """Holds the inputs of operators until it is known whether they are wanted."""

    _keeps_rest = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held = HeldInputs()
        self._found, self._found_in_step = 0, False

    def _take_inputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        if self._devices is not None:
            values = [value for value in values if self._devices.select(value.tensor)]
        self._held.keep(call, values)

    def _write_held(self, call: Call, label: Label, held: Sequence[HeldInput]) -> None:
        place = self._place(call)
        self._found += 1
        self._found_in_step = True
        for slot, tensor, source, original in held:
            self._recorder.input(place, label, call, slot, tensor, source, original)
        if self._settings.save_kernel_args:
            self._recorder.arguments(place, label, arguments_of(call.node))

    def _has_written(self, iteration: int, record: StepRecord) -> bool:
        self._held.clear()
        found, self._found_in_step = self._found_in_step, False
        return found


class OverflowSink(_FindingSink):
    """`op_debug_mode` 3: operators whose output holds NaN or Inf, as they ran."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._overflows: dict[int, OverflowTable] = {}

    @property
    def _has_enough(self) -> bool:
        """True if as many operators have overflowed as are wanted."""
        return 0 < self._settings.overflow_number <= self._found

    def wants_step(self, step: int) -> bool:
        return super().wants_step(step) and not self._has_enough

    def _take_outputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        held = self._held.take(call)
        outputs = overflow.bad_rows([value[:2] for value in values])
        if not outputs:
            return
        overflows = self._overflows.setdefault(call.node.graph, OverflowTable())
        if overflows.has(call):  # a collective, whose outputs come one by one
            overflows.add_outputs(outputs)
        elif self._has_enough:
            return
        else:
            inputs = overflow.bad_rows([each[:2] for each in held])
            overflows.add(label, call, inputs, outputs)
            self._write_held(call, label, held)
        self._add_outputs(call, label, values)

    def _has_written(self, iteration: int, record: StepRecord) -> bool:
        """List what overflowed in the step that ends, now that it is known where it began."""
        for graph, overflows in self._overflows.items():
            lines, origin = overflows.end_step(record.calls)
            for line in lines:
                place = DumpFolder(graph, iteration)
                self._recorder.line(place, layout.OVERFLOW, overflow.HEADER, line)
            if origin is not None:
                say_once(
                    f"dump: NaN or Inf begins at {origin.node.name} in iteration"
                    f" {iteration}{_where(origin.node)}",
                    key="dump: NaN or Inf begins",
                )
        return super()._has_written(iteration, record)

    def _why_nothing(self) -> str:
        return "no output held NaN or Inf"


class ExceptionSink(_FindingSink):
    """`op_debug_mode` 4: the inputs of operators that raise."""

    def _take_inputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        self._write_raised()
        super()._take_inputs(call, label, values)

    def _take_outputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        self._held.drop(call)

    def _has_written(self, iteration: int, record: StepRecord) -> bool:
        self._write_raised()
        return super()._has_written(iteration, record)

    def _write_raised(self) -> None:
        """Write the inputs of the operators that have raised since the last look."""
        for call, held in self._held.raised():
            self._write_held(call, self._labels[call.node], held)
            say(f"dump: {call.node.name} raised; its inputs are in {self._directory(call)}")

    def _directory(self, call: Call) -> Path:
        root = self.root or self._settings.path
        return root / self._settings.net_name / self._place(call).path

    def _why_nothing(self) -> str:
        return "no operator raised"


def _where(node: Node) -> str:
    frame = node.stack.where
    return "" if frame is None else f" ({frame.file}:{frame.line})"

"""The dump sink: hears what operators did and has it written in the layout of the dump."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from opscope.dump import layout
from opscope.dump.format.subject import Label, LabelBook
from opscope.dump.layout import DumpFolder
from opscope.dump.selection.constants import Constants, is_constant
from opscope.dump.selection.devices import Devices, without_idle_choice
from opscope.dump.selection.marks import marks
from opscope.dump.selection.picking import RowPicker, ValueSpot
from opscope.dump.selection.schemas import arguments_of
from opscope.dump.selection.useless import has_useless, useless_slots
from opscope.dump.selection.wanted import (
    Kernels,
    Phases,
    rows_of_parameters,
    saves_constants,
    takes_values,
    wanted,
)
from opscope.dump.sinks.early import EarlyRecorder
from opscope.dump.sinks.opening import DEFAULT_LIMIT, open_recorder
from opscope.dump.sinks.recorder import DumpRecorder
from opscope.dump.transport.failure import describe
from opscope.dump.transport.ownership import RankLock, make_room
from opscope.dump.transport.writer import WriterError
from opscope.errors import OpscopeError
from opscope.events import (
    IO,
    TRAINING_GRAPH,
    BaseSink,
    Call,
    Node,
    Outside,
    PassingValue,
    StepRecord,
    Want,
)
from opscope.messages import say
from opscope.names import PARAMETER
from opscope.rows import Rows

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings

_Arguments = ParamSpec("_Arguments")
BY_SCRIPT = 2
"""The dump_mode in which the script marks what is dumped."""
_STATS = {IO.INPUT: Want.INPUT_STATS, IO.OUTPUT: Want.OUTPUT_STATS}
_Callback = Callable[Concatenate["DumpSink", _Arguments], None]


def _never_raises(callback: _Callback[_Arguments]) -> _Callback[_Arguments]:
    """Do nothing when the dump is off, and end the dump rather than training when it fails."""

    @wraps(callback)
    def guarded(
        sink: DumpSink, /, *arguments: _Arguments.args, **keywords: _Arguments.kwargs
    ) -> None:
        if not sink.is_on:
            return
        try:
            callback(sink, *arguments, **keywords)
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            sink.fail(error)

    return guarded


class DumpSink(BaseSink):
    """Writes the values and statistics that the settings ask for.

    What ran after the last step is no iteration; a dump in which it is one would end in a step that
    is almost empty. `include` names phases to dump beside training: "setup", "data", "eval".
    """

    _keeps_rest = False
    """True if what ran after the last step is wanted all the same."""

    def __init__(
        self,
        settings: DumpSettings,
        run_id: str,
        include: frozenset[str] = frozenset(),
        memory_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._asked = settings
        self._run_id = run_id
        self._limit = memory_limit
        self._phases = Phases(include)
        self._kernels = Kernels(settings.kernels if settings.dump_mode == 1 else None)
        self._takes_values = takes_values(settings)
        self._label_book = LabelBook()
        self._labels: dict[Node, Label] = {}
        self._parameters_seen: set[tuple[int, str]] = set()
        self._elsewhere: set[ValueSpot] = set()
        self._constants = Constants() if saves_constants(settings) else None
        self._step, self._captures_step = -1, False
        self._lock: RankLock | None = None
        self._root: Path | None = None
        self._opened: DumpRecorder | None = None
        self._recorder: DumpRecorder | EarlyRecorder = EarlyRecorder()
        self._failure = ""
        self._summary = ""
        self._pid = os.getpid()

    @cached_property
    def _settings(self) -> DumpSettings:
        """The settings as they take effect here; first needed when torch knows its devices."""
        return without_idle_choice(self._asked)

    @cached_property
    def _devices(self) -> Devices | None:
        return Devices.of(self._settings.support_device)

    @cached_property
    def _want(self) -> Want:
        return wanted(self._settings)

    @cached_property
    def _picker(self) -> RowPicker:
        sides = [io for io, flag in _STATS.items() if flag in self._want]
        return RowPicker(self._label_book, sides, rows_of_parameters(self._settings))

    @property
    def is_on(self) -> bool:
        """True if anything is taken in: neither closed nor failed, not in a forked child."""
        return self._pid == os.getpid() and not self._failure

    def open(self, rank: int) -> None:
        """Take the rank's directory; OpscopeError if a live run has it."""
        try:
            self._open(rank)
        except OpscopeError:
            self._pid = 0
            raise
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            self.fail(error)

    def _open(self, rank: int) -> None:
        path = self._settings.path
        self._lock = RankLock(path, rank, self._run_id)
        moved = make_room(path, rank, self._run_id)
        if moved is not None:
            say(f"dump: what earlier runs left in {path} is now in {moved}")
        root = self._root = layout.rank_directory(path, rank)
        self._opened = open_recorder(
            self._settings, root, self._run_id, rank, self._lock, self._limit
        )
        early, self._recorder = self._recorder, self._opened
        if isinstance(early, EarlyRecorder):
            early.replay(self._opened)

    def wants_step(self, step: int) -> bool:
        return self.is_on and self._iteration(step) in self._settings.iterations

    def wants(self, node: Node) -> Want:
        if not self.is_on or node.phase not in self._phases or not self._selects(node):
            self._labels.pop(node, None)
            self._picker.drop(node)
            return Want.NOTHING
        label = self._label_book.label(node.graph, node.op_type, node.name)
        self._labels[node] = label
        self._picker.add(node, label, self._settings.ignores_useless_outputs)
        return self._want

    def _selects(self, node: Node) -> bool:
        if self._settings.dump_mode == BY_SCRIPT:
            return marks.select(node)
        return self._kernels.select(node)

    @_never_raises
    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        label = self._labels.get(call.node)
        if label is not None and self._captures(call.step):
            self._take_inputs(call, label, values)

    def _take_inputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        if self._constants is not None:
            self._add_constants(call, values, self._constants)
        if not self._settings.wants_inputs:
            return
        place = self._place(call)
        for slot, tensor, source in values:
            if self._devices is None or self._is_here(call, IO.INPUT, slot, tensor):
                self._recorder.input(place, label, call, slot, tensor, source)

    @_never_raises
    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        label = self._labels.get(call.node)
        if label is not None and self._captures(call.step):
            self._take_outputs(call, label, self._needed(call, values))

    def _take_outputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        if self._settings.wants_outputs:
            self._add_outputs(call, label, values)

    def _needed(self, call: Call, values: Sequence[PassingValue]) -> Sequence[PassingValue]:
        """The outputs without those that nothing ever reads."""
        op = call.node.op
        if not self._settings.ignores_useless_outputs or not has_useless(op):
            return values
        useless = useless_slots(op, len(call.node.outputs))
        return [value for value in values if value.slot not in useless]

    def _add_outputs(self, call: Call, label: Label, values: Sequence[PassingValue]) -> None:
        place = self._place(call)
        if self._constants is not None:
            for value in values:
                self._constants.made(value.tensor)
        for slot, tensor, _ in values:
            if self._devices is None or self._is_here(call, IO.OUTPUT, slot, tensor):
                self._recorder.output(place, label, call, slot, tensor)

    def _add_constants(
        self, call: Call, values: Sequence[PassingValue], constants: Constants
    ) -> None:
        graph = call.node.graph
        for _, tensor, source in values:
            if not is_constant(source):
                continue
            if self._devices is not None and not self._devices.select(tensor):
                continue
            number = constants.new(graph, tensor)
            if number is not None:
                label = self._label_book.label(graph, PARAMETER, f"data-{number}")
                self._recorder.constant(graph, label, call.time_us, tensor)

    @_never_raises
    def parameter(self, call: Call, source: Outside, tensor: Any) -> None:
        if call.node not in self._labels or not self._settings.wants_outputs:
            return
        seen = call.node.graph, source.name
        if seen in self._parameters_seen or not self._captures(call.step):
            return
        self._parameters_seen.add(seen)
        if self._devices is None or self._devices.select(tensor):
            label = self._label_book.label(call.node.graph, PARAMETER, source.name)
            self._recorder.parameter(self._place(call), label, call.time_us, tensor, source)

    @_never_raises
    def stats(self, rows: Rows) -> None:
        step = int(rows.records["step"][0]) if len(rows) else -1
        if not self._captures(step):
            return
        iteration = self._iteration(step)
        for batch in self._picker.pick(rows, iteration, self._elsewhere):
            self._recorder.rows(batch)

    @_never_raises
    def step_end(self, record: StepRecord) -> None:
        if not self._captures(record.step):
            return
        iteration = self._iteration(record.step)
        if self._has_written(iteration, record):
            self._finish(iteration, record)

    def _has_written(self, iteration: int, record: StepRecord) -> bool:
        """Tell whether there is anything of an iteration that ends."""
        return True

    def _finish(self, iteration: int, record: StepRecord) -> None:
        of_step = record.orders
        orders = {graph: self._phases.of(graph, nodes) for graph, nodes in of_step.items()}
        executed = {graph: nodes for graph, nodes in orders.items() if nodes}
        if record.rest and not self._keeps_rest and executed.keys() <= {TRAINING_GRAPH}:
            executed = {}  # then nothing of it stays
        if self._settings.save_kernel_args and not self._settings.op_debug_mode:
            self._add_arguments(iteration, executed)
        self._recorder.finish(iteration, record.complete, executed, record.calls.passes)
        self._parameters_seen.clear()
        self._elsewhere.clear()
        if self._constants is not None:
            self._constants.end_step()

    def _add_arguments(self, iteration: int, executed: Mapping[int, Sequence[Node]]) -> None:
        for graph, nodes in executed.items():
            for node in dict.fromkeys(nodes):
                label = self._labels.get(node)
                if label is not None:
                    self._recorder.arguments(
                        DumpFolder(graph, iteration), label, arguments_of(node)
                    )

    def close(self) -> None:
        """Write what is waiting, say what matched nothing, and let go of the directory."""
        if self._pid != os.getpid():
            return
        try:
            self._close()
        finally:
            self._pid = 0
            self._opened, self._recorder = None, EarlyRecorder()
            if self._lock is not None:
                self._lock.release()

    def fail(self, error: BaseException) -> None:
        """End the dump because of an error; training goes on."""
        if self._failure:
            return
        self._failure = describe(error)
        say(f"dump: {self._failure}; the dump stops here, training goes on")
        if self._opened is not None:
            self._opened.fail(self._failure)

    def summary(self) -> str:
        """Return what was written and where, in one line; empty if there is nothing."""
        return self._summary

    def _close(self) -> None:
        if self._opened is None:
            return
        try:
            outcome = self._opened.close(self._failure)
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            self.fail(error)
            return
        if outcome.failure:
            self.fail(WriterError(outcome.failure))
        self._summary = f"{outcome.summary} in {self._settings.path}"
        self._kernels.report_unmatched()
        if self._settings.dump_mode == BY_SCRIPT and not self._labels:
            say("dump: dump_mode is 2, but set_dump has marked nothing that ran")
        if not self._failure and not outcome.iterations:
            say(f"dump: nothing was written: {self._why_nothing()}")

    def _why_nothing(self) -> str:
        return f'iteration "{self._settings.iterations}" never came'

    @property
    def root(self) -> Path | None:
        """The directory of this rank while it is written to."""
        return self._root if self._opened is not None and self.is_on else None

    def _captures(self, step: int) -> bool:
        if step != self._step:
            wanted = self._iteration(step) in self._settings.iterations
            self._step, self._captures_step = step, self.is_on and wanted
        return self._captures_step

    def _place(self, call: Call) -> DumpFolder:
        return DumpFolder(call.node.graph, self._iteration(call.step))

    def _iteration(self, step: int) -> int:
        return step + self._settings.initial_iteration

    def _is_here(self, call: Call, io: IO, slot: int, tensor: Any) -> bool:
        """Tell whether to take a value for its device; note it, so that its row is known."""
        if self._devices is None or self._devices.select(tensor):
            return self._takes_values
        self._elsewhere.add((call.index, io, slot))
        return False

"""Hand-made operators driven through a real dump sink into real files."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # also where pytest is not

from helpers.made_rows import MadeRows
from opscope.calls import Calls
from opscope.dump.sinks.dump_sink import DumpSink
from opscope.events import (
    IO,
    Call,
    Node,
    Output,
    Outside,
    PassingValue,
    Phase,
    Source,
    Stack,
    StepRecord,
    ValueStats,
    Want,
)
from opscope.settings.dump import DumpSettings, load_dump_settings
from opscope.settings.dump_keys import DOTTED, E2E
from opscope.stats.numpy_stats import row_of
from opscope.stats.torch_values import dtype_name, shape_of, to_numpy

TIME_US = 1_700_000_000_000_000
_STACK = Stack(0, ())
_NODE_IDS = itertools.count()
_ANYWHERE = Outside("outside", "")


def make_settings(path: Path, enable: bool = True, **options: Any) -> DumpSettings:
    """Settings read from a real config file; options go to the section they belong to."""
    base = {"path": str(path), "net_name": "Net", "iteration": "all"}
    e2e = {key: value for key, value in options.items() if DOTTED.get(key, "").startswith(E2E)}
    common = {key: value for key, value in options.items() if key not in e2e}
    config = {"common_dump_settings": base | common, "e2e_dump_settings": {"enable": enable} | e2e}
    file = path.with_name(path.name + ".json")
    file.write_text(json.dumps(config))
    return load_dump_settings(str(file), {})


def make_node(
    name: str = "Default/network-Net/relu-op0",
    op_type: str = "relu",
    graph: int = 0,
    phase: Phase = Phase.FORWARD,
    module_class: str = "Net",
    outputs: int = 1,
) -> Node:
    """A call site."""
    scope = name.rpartition("/")[0]
    op, number = f"aten.{op_type}", next(_NODE_IDS)
    node = Node(number, graph, name, op_type, op, scope, module_class, phase, _STACK)
    node.outputs.extend(Output(node, slot) for slot in range(outputs))
    return node


class MadeDump:
    """A sink and the calls made to it, as the pipeline makes them."""

    def __init__(self, settings: DumpSettings, run_id: str = "run-a", **options: Any) -> None:
        self.settings = settings
        self.sink = DumpSink(settings, run_id, **options)
        self.step = 0
        self.executed: list[Node] = []
        self._rows = MadeRows(self.sink)
        self._index = 0
        self.at_step_end = False
        """Whether the rows of a step are delivered together."""
        self.waiting: list[ValueStats] = []
        self._wants: dict[Node, Want] = {}

    def __enter__(self) -> MadeDump:
        self.sink.open(0)
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    @property
    def root(self) -> Path:
        return self.settings.path / "rank_0"

    def call(
        self,
        node: Node,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sources: Sequence[Source | None] = (),
        stream: int = 0,
    ) -> Call:
        """Run an operator: its inputs, its outputs and their statistics."""
        call = Call(node, self.step, self._index, stream, TIME_US + self._index)
        self._index += 1
        self.executed.append(node)
        want = self._want(node)
        sources = [*sources, *[None] * (len(inputs) - len(sources))]
        node.sources = [source or _ANYWHERE for source in sources]
        ins = [
            PassingValue(slot, t, sources[slot]) for slot, t in enumerate(inputs) if t is not None
        ]
        outs = [PassingValue(slot, t, None) for slot, t in enumerate(outputs) if t is not None]
        if ins and want & Want.INPUT_VALUES:
            self.sink.inputs(call, ins)
        rows = []
        if ins and want & (Want.INPUT_STATS | Want.OUTSIDE_STATS):
            rows += [_stats(call, IO.INPUT, value) for value in ins]
        if outs and want & Want.OUTPUT_VALUES:
            self.sink.outputs(call, outs)
        if outs and want & Want.OUTPUT_STATS:
            rows += [_stats(call, IO.OUTPUT, value) for value in outs]
        if self.at_step_end:
            self.waiting += rows
        elif rows:
            self.deliver(rows)
        return call

    def deliver(self, rows: Sequence[ValueStats]) -> None:
        """Hand over rows that are ready."""
        self._rows.deliver(rows)

    def parameter(self, node: Node, name: str, tensor: Any) -> None:
        """A parameter at its first use."""
        if self._want(node) & Want.PARAMETERS:
            call = Call(node, self.step, self._index, 0, TIME_US + self._index)
            self.sink.parameter(call, Outside("parameter", name), tensor)

    def end_step(self, complete: bool = True) -> None:
        """End the step and begin the next one."""
        if self.waiting:
            self.deliver(self.waiting)
            self.waiting = []
        if self.sink.wants_step(self.step):
            self.sink.step_end(
                StepRecord(self.step, Calls(self.executed), [], 0.1, complete=complete)
            )
        self.step += 1
        self.executed, self._index = [], 0
        self.sink.step_begin(self.step)

    def _want(self, node: Node) -> Want:
        if not self.sink.wants_step(self.step):
            return Want.NOTHING
        if node not in self._wants:
            self._wants[node] = self.sink.wants(node)
        return self._wants[node]

    def directory(self, iteration: int = 0, graph: int = 0) -> Path:
        return self.root / "Net" / str(graph) / str(iteration)

    def files(self, iteration: int = 0, graph: int = 0) -> list[str]:
        return npy_names(self.directory(iteration, graph))

    def load(self, pattern: str, iteration: int = 0, graph: int = 0) -> np.ndarray:
        """The one array whose file name matches."""
        (file,) = self.directory(iteration, graph).glob(pattern)
        return np.load(file, allow_pickle=False)

    def manifest(self) -> dict[str, Any]:
        return json.loads((self.root / ".dump_metadata/manifest.json").read_text())

    def table(self, iteration: int = 0, graph: int = 0) -> list[dict[str, str]]:
        """The rows of statistic.csv, whose lengths must be that of the header."""
        with open(self.directory(iteration, graph) / "statistic.csv", newline="") as file:
            header, *rows = csv.reader(file, strict=True)
        assert all(len(row) == len(header) for row in rows)
        return [dict(zip(header, row, strict=True)) for row in rows]


def npy_names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.glob("*.npy"))


def _stats(call: Call, io: IO, value: PassingValue) -> ValueStats:
    tensor = value.tensor
    array = to_numpy(tensor)
    assert array is not None
    return ValueStats(call, io, value.slot, dtype_name(tensor), shape_of(tensor), row_of(array))


NewDump = Callable[..., MadeDump]

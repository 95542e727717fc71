"""Writes the graph files: the operators of each graph, as text and as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opscope._version import __version__
from opscope.atomic_files import TempFiles, make_directory
from opscope.dump import layout
from opscope.dump.format import ir, onnx_model
from opscope.dump.format.execution_order import OperatorOrder
from opscope.dump.format.graph import Graph, TensorTypes
from opscope.dump.selection.wanted import Phases
from opscope.dump.transport.failure import describe
from opscope.events import BaseSink, Call, Node, PassingValue, StepRecord, Want
from opscope.messages import say_once

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALL = Want.INPUT_VALUES | Want.OUTPUT_VALUES


class GraphSink(BaseSink):
    """Looks at every operator once, in the steps that `takes` says.

    `root` is where the directory of the files goes, None for nowhere. If it is not `alone`, others
    look at these steps too; else it looks at no more steps after one without anything new.
    """

    def __init__(
        self,
        takes: Callable[[int], bool],
        root: Callable[[int], Path | None],
        include: Iterable[str] = (),
        alone: bool = True,
    ) -> None:
        self._alone = alone
        self.renew: Callable[[], None] = lambda: None
        """Called when less is wanted of operators than before."""
        self.on_failure: Callable[[BaseException], None] = _tell
        """Called when they cannot be written."""
        self._takes = takes
        self._root = root
        self._rank = 0
        self._phases = Phases(include)
        self._types = TensorTypes()
        self._orders: dict[int, OperatorOrder] = {}
        self._nodes: dict[int, dict[str, Node]] = {}
        self._last: dict[int, Sequence[Node]] = {}
        self._has_news = True
        self._wrote: Path | None = None
        self._failed = False

    def open(self, rank: int) -> None:
        self._rank = rank

    def wants_step(self, step: int) -> bool:
        has_more = self._has_news or not self._alone
        return has_more and not self._failed and self._takes(step)

    def wants(self, node: Node) -> Want:
        if node.phase not in self._phases or node in self._types:
            return Want.NOTHING
        return _ALL

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._types.add_inputs(call.node, [value[:2] for value in values])

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._types.add_outputs(call.node, [value[:2] for value in values])

    def step_end(self, record: StepRecord) -> None:
        changed = [
            graph
            for graph, nodes in record.orders.items()
            if self._add(graph, self._phases.of(graph, nodes))
        ]
        self._has_news = bool(changed)
        if not changed:
            return
        self.renew()
        root = self._root(self._rank)
        if root is None:
            return
        try:
            for graph in changed:
                self._write(root, graph)
        except OSError as error:
            self._failed = True
            self.on_failure(error)

    def summary(self) -> str:
        """Return where the files are; empty if there are none."""
        if self._wrote is None or not self._alone:
            return ""
        return f"graphs written to {self._wrote}"

    def _add(self, graph: int, nodes: Sequence[Node]) -> bool:
        """Take in the operators of a step; returns whether there were new ones."""
        if self._last.get(graph) is nodes:
            return False
        self._last[graph] = nodes
        known = self._nodes.setdefault(graph, {})
        known.update({node.name: node for node in nodes})
        return self._orders.setdefault(graph, OperatorOrder()).add([node.name for node in nodes])

    def _write(self, root: Path, number: int) -> None:
        known = self._nodes[number]
        nodes = [known[name] for name in self._orders[number].names]
        graph = Graph(number, nodes, self._types)
        directory = root / layout.GRAPHS
        temp = TempFiles(directory / layout.TEMP, "g")
        make_directory(temp.directory)
        text_file, model_file = layout.graph_files(root, number)
        text = ir.render(graph).encode("utf-8", "backslashreplace")
        temp.place_bytes(text_file, text)
        temp.place_bytes(model_file, onnx_model.encode(graph, __version__))
        temp.remove()
        self._wrote = directory


def _tell(error: BaseException) -> None:
    say_once(f"graphs: {describe(error)}; they are not written, training goes on")

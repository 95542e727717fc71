"""The sink that sees the operators somebody wants to stop at or look into."""

from __future__ import annotations

from collections.abc import Sequence

from opscope.events import IO, BaseSink, Call, Node, PassingValue, Want
from opscope.live.controller import Controller, HoldingPlace
from opscope.live.kept import KeptValues

_VALUES = Want.INPUT_VALUES | Want.OUTPUT_VALUES


class LiveSink(BaseSink):
    """Wants nothing until somebody steps from node to node, or names nodes to keep."""

    def __init__(self, controller: Controller, kept: KeptValues) -> None:
        self._controller = controller
        self._kept = kept
        self.nodes: list[Node] = []
        self.rank = 0
        self.current: Call | None = None
        """The call that training stands at, or was looked at last."""

    def open(self, rank: int) -> None:
        self.rank = rank

    def wants(self, node: Node) -> Want:
        hold = self._controller.next_hold
        if hold.at_next_node or (hold.at_node and node.name == hold.at_node):
            return _VALUES
        return _VALUES if self._kept.wants(node) else Want.NOTHING

    def node(self, node: Node) -> None:
        self.nodes.append(node)

    def step_begin(self, step: int) -> None:
        self._kept.begin_step(step)

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._kept.add(call, IO.INPUT, values)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        self._kept.add(call, IO.OUTPUT, values)
        self.current = call
        if self._controller.next_hold.looks_at_nodes:
            place = HoldingPlace(call.node.id, call.node.name, call.index, place_of(call.node))
            self._controller.at_node(call.step, place)


def place_of(node: Node) -> str:
    """The user's own line that a node is on, as `file:line`."""
    frame = node.stack.where
    return f"{frame.file}:{frame.line}" if frame is not None else ""

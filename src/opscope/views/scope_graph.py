"""One scope as a graph: what is directly in it, what feeds it and what it feeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node, Output, Outside, Phase
from opscope.value_type import ValueType
from opscope.views.outlook import Outlook
from opscope.views.rank_view import NodeNumbers, RankView
from opscope.views.reach import Reach, reach
from opscope.views.tree import kind_of

if TYPE_CHECKING:
    from opscope.views.drawing_answers import Box, Edge, ScopeGraph

MOST_BOXES = 400


def scope_graph(
    view: RankView, scope: str = "", step: int | None = None, backward: bool = False
) -> ScopeGraph:
    """The boxes of one open scope and the data between them.

    With `backward`, what computes the gradients of the scope stands beside it. Of what ran before
    training only that is drawn which something else here reads.
    """
    at = view.step_at(step)
    kinds = view.kinds_of_outputs(at)
    numbers = view.numbers(at)
    drawing = _Drawing(
        view, Outlook(scope, backward), numbers, view.hits_by_node(), kinds, reach(view)
    )
    for node in view.nodes.values():
        if drawing.is_inside(node) and node.phase is not Phase.SETUP:
            drawing.add(node)
    drawing.measure()
    hidden = max(0, len(drawing.boxes) - MOST_BOXES)
    boxes = list(drawing.boxes.values())[:MOST_BOXES]
    shown = {box["id"] for box in boxes}
    edges = [edge for edge in drawing.edges() if edge["start"] in shown and edge["end"] in shown]
    return {"scope": scope, "step": at, "boxes": boxes, "edges": edges, "hidden": hidden}


@dataclass
class _Drawing:
    view: RankView
    outlook: Outlook
    numbers: NodeNumbers | None
    hits: Counter[int]
    kinds: Mapping[tuple[int, int], ValueType]
    reach: Reach
    boxes: dict[str, Box] = field(default_factory=dict)
    _between: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _members: dict[str, list[int]] = field(default_factory=dict)

    def is_inside(self, node: Node) -> bool:
        """Tell whether a node is in the open scope, at any depth."""
        return self.outlook.inner(node) is not None

    def add(self, node: Node) -> None:
        """Draw a node of the scope, or the scope in it that holds it, with what it reads."""
        box = self._box_of(node)
        self._count(box, node)
        for slot, source in enumerate(node.sources):
            start = self._start(node, source)
            if start is not None and start["id"] != box["id"]:
                if isinstance(source, Output) and source.node.id in self.reach.nodes:
                    start["reached"] = max(1, start["reached"])
                self._between.setdefault((start["id"], box["id"]), []).append(
                    self._label(node, slot, source)
                )

    def edges(self) -> Iterator[Edge]:
        """Yield the edges between boxes."""
        for (start, end), labels in self._between.items():
            label = labels[0] if len(set(labels)) == 1 else ""
            yield {"start": start, "end": end, "label": label, "values": len(labels)}

    def _box_of(self, node: Node) -> Box:
        inner = self.outlook.inner(node)
        if inner == "":
            return self._node_box(node)
        if inner is not None:
            return self._scope_box(node, inner, "scope")
        return self._scope_box(node, self.outlook.elsewhere(node), "elsewhere")

    def _node_box(self, node: Node) -> Box:
        number = self.outlook.box_of(node)
        if number not in self.boxes:
            where = node.stack.where
            place = "" if where is None else f"{where.file.rpartition('/')[2]}:{where.line}"
            label = node.name.rpartition("/")[2]
            self.boxes[number] = _box(number, "node", label, place, str(node.phase), node.scope)
            self.boxes[number]["node"] = node.id
        return self.boxes[number]

    def _scope_box(self, node: Node, scope: str, kind: str) -> Box:
        number = self.outlook.box_of(node)
        if number not in self.boxes:
            label = scope.rpartition("/")[2] or "Default"
            self.boxes[number] = _box(number, kind, label, scope, str(node.phase), scope)
        return self.boxes[number]

    def _start(self, node: Node, source: Output | Outside) -> Box | None:
        if isinstance(source, Output):
            return self._box_of(source.node)
        if self.outlook.inner(node) != "" or source.kind not in ("parameter", "buffer", "batch"):
            return None
        number = f"o:{source.kind}:{source.name}"
        if number not in self.boxes:
            self.boxes[number] = _outside_box(number, source)
        return self.boxes[number]

    def _count(self, box: Box, node: Node) -> None:
        """Add what is known of a node to its box."""
        own = kind_of(node)
        box["node_class"] = own if box["nodes"] == 0 or box["node_class"] == own else ""
        box["nodes"] += 1
        box["hits"] += self.hits[node.id]
        box["reached"] += node.id in self.reach.nodes
        box["is_origin"] = box["is_origin"] or node.id == self.reach.origin
        self._members.setdefault(box["id"], []).append(node.id)

    def measure(self) -> None:
        """Give the boxes the numbers of the nodes in them."""
        if self.numbers is not None:
            for number, nodes in self._members.items():
                _measure(self.boxes[number], np.array(nodes), self.numbers)

    def _label(self, node: Node, slot: int, source: Output | Outside) -> str:
        if isinstance(source, Outside):
            return source.name
        kind = self.kinds.get((source.node.id, source.slot))
        return f":{source.slot}" if kind is None else f"{kind.dtype}{list(kind.shape)}"


def _measure(box: Box, nodes: NDArray[np.int64], numbers: NodeNumbers) -> None:
    nodes = nodes[nodes < len(numbers.rows)]
    nodes = nodes[numbers.rows[nodes] > 0]
    if not len(nodes):
        return
    box["nan"], box["inf"] = int(numbers.nan[nodes].sum()), int(numbers.inf[nodes].sum())
    box["bad"] = bool(box["nan"] or box["inf"])
    box["max"] = float(np.fmax.reduce(numbers.max[nodes]))
    box["mean_abs"] = float(np.fmax.reduce(numbers.mean_abs[nodes]))
    box["zero_share"] = float(numbers.zero[nodes].sum() / max(1, numbers.elements[nodes].sum()))


def _outside_box(number: str, source: Outside) -> Box:
    """A batch has numbers for names: they say nothing without what is before them."""
    is_batch = source.kind == "batch"
    label = source.name if is_batch else source.name.rpartition(".")[2]
    detail = source.kind if is_batch else source.name
    return _box(number, "outside", label or source.kind, detail, source.kind, "")


def _box(number: str, kind: str, label: str, detail: str, phase: str, scope: str) -> Box:
    return {
        "id": number,
        "kind": kind,
        "label": label,
        "detail": detail,
        "phase": phase,
        "node": None,
        "scope": scope,
        "nodes": 0,
        "nan": 0,
        "inf": 0,
        "max": None,
        "mean_abs": None,
        "zero_share": None,
        "node_class": "",
        "hits": 0,
        "bad": False,
        "reached": 0,
        "is_origin": False,
    }

"""The way of data from one operator to another, through whatever scopes lie between."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING

from opscope.errors import OpscopeError
from opscope.events import Node
from opscope.views.outlook import Outlook
from opscope.views.rank_view import RankView
from opscope.views.reach import reach

if TYPE_CHECKING:
    from opscope.views.drawing_answers import NodePath

MOST_NODES = 1000
"""Of a path, so many are told of."""


def path(view: RankView, start: int, end: int, step: int | None, outlook: Outlook) -> NodePath:
    """The shortest way of data between two operators, in whichever direction it flows.

    An operator also leads to those that compute its gradient. Where the fault of the verdict
    reached both ends, the way is one that the fault took.
    """
    for number in (start, end):
        if number not in view.nodes:
            raise OpscopeError(f"there is no node {number}")
    why = view.reader.recording.lacks.get("edges", "")
    found = [] if why else _between(view, view.nodes[start], view.nodes[end])
    shown = found[:MOST_NODES]
    numbers, hits = view.numbers(view.step_at(step)), view.hits_by_node()
    boxes = [box for box, _ in groupby(map(outlook.box_of, shown))]
    return {
        "start": start,
        "end": end,
        "nodes": [view.node_line(node, numbers, hits) for node in shown],
        "total": len(found),
        "why": why,
        "boxes": list(dict.fromkeys(boxes)),
        "edges": [{"start": one, "end": other} for one, other in dict.fromkeys(pairwise(boxes))],
    }


def _between(view: RankView, start: Node, end: Node) -> list[Node]:
    reached = reach(view).nodes
    spoilt = reached if start.id in reached and end.id in reached else None
    limits = (None,) if spoilt is None else (spoilt, None)
    for limit in limits:
        for one, other in ((start, end), (end, start)):
            found = _shortest(view, one, other, limit)
            if found:
                return found
    return []


def _shortest(view: RankView, start: Node, end: Node, within: Collection[int] | None) -> list[Node]:
    """The nodes from one to the other, both included; none if data does not flow there."""
    came_from: dict[int, Node | None] = {start.id: None}
    todo = deque([start])
    while todo and end.id not in came_from:
        node = todo.popleft()
        for after in _next(view, node):
            if after.id not in came_from and (within is None or after.id in within):
                came_from[after.id] = node
                todo.append(after)
    return list(_back(end, came_from))[::-1] if end.id in came_from else []


def _back(end: Node, came_from: dict[int, Node | None]) -> Iterator[Node]:
    node: Node | None = end
    while node is not None:
        yield node
        node = came_from[node.id]


def _next(view: RankView, node: Node) -> Iterable[Node]:
    readers = (reader.node for reader in view.reader.consumers(node))
    return chain(readers, view.backward.get(node.id, ()))

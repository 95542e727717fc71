"""The reach of a fault: the operators that it spread to from its origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from opscope.events import Node
from opscope.views.hit_list import story_of
from opscope.views.rank_view import NodeNumbers, RankView


@dataclass(frozen=True)
class Reach:
    """The origin of a verdict, and what NaN or Inf flowed to from there, by the ids of nodes."""

    origin: int | None = None
    nodes: frozenset[int] = frozenset()


def reach(view: RankView) -> Reach:
    """Follow the data from the origin of the verdict as long as it is not finite."""
    return view.once("reach", lambda: _reach(view))


def _reach(view: RankView) -> Reach:
    story = story_of(view)
    origin = view.nodes.get(story["node"]) if story and "node" in story else None
    if story is None or origin is None:
        return Reach()
    numbers = view.numbers(view.step_at(story.get("step")))
    found = {origin.id}
    todo = [origin]
    while todo:
        for node in _spoilt(view, todo.pop(), numbers):
            if node.id not in found:
                found.add(node.id)
                todo.append(node)
    return Reach(origin.id, frozenset(found))


def _spoilt(view: RankView, node: Node, numbers: NodeNumbers | None) -> Iterator[Node]:
    """Those that read a node, or compute its gradient, and have outputs that are not finite."""
    if numbers is None or "edges" in view.reader.recording.lacks:
        return
    readers = (reader.node for reader in view.reader.consumers(node))
    for after in chain(readers, view.backward.get(node.id, ())):
        _, _, nan, inf = numbers.of(after.id)
        if nan or inf:
            yield after

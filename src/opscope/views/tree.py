"""The model as a tree of scopes, and lists of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from opscope.events import Node, Phase
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.node_answers import Branch, NodeList, ScopeLine

KINDS = ("weight", "gradient", "activation")
"""Classes of nodes: those that update a parameter, compute its gradient, and all others."""


_LAST = (Phase.SETUP, Phase.DATA)
"""Nodes of these phases come last in a list: they are no part of a training step."""


def branch(view: RankView, scope: str = "", step: int | None = None) -> Branch:
    """List what is directly in a scope, with the numbers of a step; the root has no name."""
    tree, here = view.scopes, view.scope_number(scope)
    at = view.step_at(step)
    if here is None:
        return {"scope": scope, "step": at, "scopes": [], "nodes": []}
    hits = view.hits_by_node()
    return {
        "scope": scope,
        "step": at,
        "scopes": _scope_lines(view, tree.children(here), at, hits),
        "nodes": [
            view.node_line(view.nodes[int(number)], view.numbers(at), hits)
            for number in np.flatnonzero(tree.of_node == here)
        ],
    }


def node_list(
    view: RankView,
    text: str = "",
    *,
    step: int | None = None,
    phase: str = "",
    op_type: str = "",
    scope: str = "",
    graph: int | None = None,
    kind: str = "",
    with_hits: bool = False,
    first: int = 0,
    count: int = 100,
) -> NodeList:
    """The nodes that match all of these, a page of them; see `matches_text` for the text."""
    hits = view.hits_by_node()
    found = [
        node
        for node in view.nodes.values()
        if matches_text(node, text)
        and (not phase or node.phase == phase)
        and (not op_type or node.op_type == op_type)
        and (not scope or node.scope == scope or node.scope.startswith(f"{scope}/"))
        and (graph is None or node.graph == graph)
        and (not kind or kind_of(node) == kind)
        and (not with_hits or hits[node.id])
    ]
    found.sort(key=lambda node: node.phase in _LAST)  # otherwise as they were first seen
    at = view.step_at(step)
    numbers = view.numbers(at)
    shown = found[first : first + count]
    return {
        "total": len(found),
        "step": at,
        "nodes": [view.node_line(node, numbers, hits) for node in shown],
    }


def matches_text(node: Node, text: str) -> bool:
    """Tell whether a text is part of a node's name, parameter or operator, or a line of its stack.

    `model.py:31` means the line, also of callers; upper and lower case do not matter.
    """
    wanted = text.strip().lower()
    if not wanted:
        return True
    file, colon, line = wanted.rpartition(":")
    if colon and file and line.isdigit():
        frames = (frame for frame in node.stack.frames if frame.user)
        at_line = (frame for frame in frames if frame.line == int(line))
        if any(frame.file.lower().endswith(file) for frame in at_line):
            return True
    parts = (node.name, node.parameter, node.gradient_of, node.op)
    return any(wanted in part.lower() for part in parts)


def kind_of(node: Node) -> str:
    """The class of a node, one of `KINDS`."""
    if node.gradient_of:
        return "gradient"
    updates = node.parameter or any(output.parameter for output in node.outputs)
    return "weight" if updates else "activation"


def _scope_lines(
    view: RankView, scopes: Iterable[int], step: int | None, hits: Counter[int]
) -> list[ScopeLine]:
    tree, found = view.scopes, view.scope_numbers(step)
    hits_in = _hits_in_scopes(view, hits)
    children = np.bincount(tree.parents[1:], minlength=len(tree.names))
    lines: list[ScopeLine] = []
    for scope in scopes:
        has_rows = found is not None and bool(found.rows[scope])
        lines.append(
            {
                "name": tree.names[scope],
                "label": tree.names[scope].rpartition("/")[2],
                "scopes": int(children[scope]),
                "nodes": int(tree.nodes[scope]),
                "parameters": int(tree.parameters[scope]),
                "rows": int(found.rows[scope]) if found else 0,
                "min": float(found.min[scope]) if found and has_rows else None,
                "max": float(found.max[scope]) if found and has_rows else None,
                "nan": int(found.nan[scope]) if found else 0,
                "inf": int(found.inf[scope]) if found else 0,
                "hits": hits_in[scope],
            }
        )
    return lines


def _hits_in_scopes(view: RankView, hits: Counter[int]) -> Counter[int]:
    """Count the hits of scopes, with those of the scopes in them."""
    tree = view.scopes
    found: Counter[int] = Counter()
    for node, count in hits.items():
        scope = int(tree.of_node[node]) if 0 <= node < len(tree.of_node) else -1
        while scope > 0:
            found[scope] += count
            scope = int(tree.parents[scope])
    return found

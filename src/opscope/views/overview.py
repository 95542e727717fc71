"""A whole run at a glance: how it went, the model, and what stands out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from opscope.events import TRAINING_GRAPH, Node, Phase
from opscope.read.row_store import Records
from opscope.stats.record import OUTPUT, taken
from opscope.views.hit_list import verdict
from opscope.views.rank_view import RankView
from opscope.views.strip import strip

_GROWTH = 10.0
"""A value has grown if its largest is this many times what it was."""
_MOSTLY = 0.95
_SQUASHING = {"tanh": 1.0, "sigmoid": 1.0, "hardtanh": 1.0}
"""Operators whose outputs end at this."""
_MOST = 10


class Finding(NamedTuple):
    """Something about an operator that a person would want to know."""

    kind: str
    """grown, dead, saturated or zero."""
    node: int
    name: str
    where: str
    what: str


def overview(view: RankView, points: int = 200) -> dict[str, Any]:
    """The curves of a run, its scopes with their numbers, what stands out, and its hits."""
    said = verdict(view)
    return {
        "rank": view.rank,
        "state": said["state"],
        "sentence": said["sentence"],
        "hits": said["groups"],
        "curves": strip(view, points),
        "scopes": list(scopes(view)),
        "findings": [finding._asdict() for finding in findings(view)],
    }


def scopes(view: RankView) -> Iterator[dict[str, Any]]:
    """Every scope of the model in the order of the tree, with the numbers of the last step."""
    tree = view.scopes
    found = view.scope_numbers(view.last_step)
    todo = [(scope, 0) for scope in reversed(list(tree.children(0)))]
    while todo:
        scope, depth = todo.pop()
        name = tree.names[scope]
        rows = int(found.rows[scope]) if found else 0
        yield {
            "scope": name,
            "depth": depth,
            "label": name.rpartition("/")[2],
            "operators": int(tree.nodes[scope]),
            "parameters": int(tree.parameters[scope]),
            "min": float(found.min[scope]) if found and rows else None,
            "max": float(found.max[scope]) if found and rows else None,
            "bad": int(found.nan[scope] + found.inf[scope]) if found else 0,
        }
        todo += [(child, depth + 1) for child in reversed(list(tree.children(scope)))]


def findings(view: RankView) -> list[Finding]:
    """List what stands out in the last recorded step, most telling first."""
    end = view.last_step
    if end is None:
        return []
    first, last = _outputs(view, view.recorded_steps[0]), _outputs(view, end)
    grown = sorted(_grown(view, first, last), key=lambda pair: -pair[0])
    return [finding for _, finding in grown[:3]] + list(_stuck(view, last))[:_MOST]


def _outputs(view: RankView, step: int) -> Records:
    rows = view.rows(step)
    return taken(rows, (rows["io"] == OUTPUT) & (rows["count"] > 0))


def _grown(view: RankView, first: Records, last: Records) -> Iterator[tuple[float, Finding]]:
    """Values that are many times as large as in the first step."""
    before = {(int(row["node"]), int(row["slot"])): float(row["mean_abs"]) for row in first}
    for row in last:
        node = view.nodes.get(int(row["node"]))
        was = before.get((int(row["node"]), int(row["slot"])))
        now = float(row["mean_abs"])
        if node is None or not _is_training(node) or not was or not np.isfinite(was):
            continue
        if np.isfinite(now) and now >= _GROWTH * was:
            what = f"mean |x| {was:.3g} in the first step, {now:.3g} in the last"
            yield now / was, _finding("grown", node, what)


def _stuck(view: RankView, last: Records) -> Iterator[Finding]:
    """Outputs that are zero, dead or at the end of their range."""
    for row in last:
        node = view.nodes.get(int(row["node"]))
        if node is None or not _is_training(node):
            continue
        count, zero = int(row["count"]), int(row["zero"])
        if node.gradient_of and zero == count:
            yield _finding("zero", node, f"the gradient of {node.gradient_of} is all zero")
        elif node.phase is Phase.FORWARD and "relu" in node.op_type and zero >= _MOSTLY * count:
            yield _finding("dead", node, f"{zero / count:.0%} of the outputs are zero")
        elif (end := _SQUASHING.get(node.op_type)) and float(row["mean_abs"]) >= _MOSTLY * end:
            mean = float(row["mean_abs"])
            yield _finding("saturated", node, f"mean |x| is {mean:.3g}, its limit {end:g}")


def _is_training(node: Node) -> bool:
    return node.graph == TRAINING_GRAPH and node.phase in (Phase.FORWARD, Phase.BACKWARD)


def _finding(kind: str, node: Node, what: str) -> Finding:
    where = node.stack.where
    return Finding(kind, node.id, node.name, f"{where.file}:{where.line}" if where else "", what)

"""Scopes as a tree, with numbers of a step, against plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from opscope.events import Node, Outside, Phase, Stack
from opscope.read.scope_tree import scope_tree
from opscope.stats.record import INT, OUTPUT, ROW_DTYPE, VALID

SCOPES = ["", "a", "a/b", "a/b/c", "a/d", "e", "e/f/g"]

values = st.tuples(
    st.integers(0, 9),
    st.sampled_from([0, OUTPUT]),
    st.floats(width=32),
    st.integers(0, 3),
    st.booleans(),
)


def make_node(number: int, scope: str, parameter: str) -> Node:
    node = Node(number, 0, f"{scope}/x-op0", "x", "x", scope, "", Phase.FORWARD, Stack(0, ()))
    node.sources = [Outside("parameter", parameter, parameter)] if parameter else []
    return node


@given(
    st.lists(st.tuples(st.sampled_from(SCOPES), st.sampled_from(["", "w", "v"])), max_size=10),
    st.lists(values, max_size=30),
)
@settings(max_examples=examples(150), deadline=None)
def test_numbers_of_scopes_are_what_plain_python_says(described: Any, rows: Any) -> None:
    nodes = {i: make_node(i, *each) for i, each in enumerate(described)}
    records = np.zeros(len(rows), ROW_DTYPE)
    for record, (node, io, number, bad, whole) in zip(records, rows, strict=True):
        record["valid"], record["node"], record["io"] = VALID, node, io
        record["nan"], record["posinf"] = bad, bad // 2
        if whole:
            record["kind"], record["min_int"], record["max_int"] = INT, bad, bad + 5
        else:
            record["min"] = record["max"] = number
    tree = scope_tree(nodes)
    found = tree.aggregate(records)
    assert tree.names[0] == ""
    for number, name in enumerate(tree.names):
        inside = [n for n in nodes.values() if is_in(n.scope, name)]
        assert tree.nodes[number] == len(inside)
        parameters = {s.name for n in inside for s in n.sources}  # type: ignore[union-attr]
        assert tree.parameters[number] == len(parameters)
        ids = {n.id for n in inside}
        mine = [
            (place, r)
            for place, r in enumerate(records)
            if int(r["node"]) in ids and r["io"] == OUTPUT
        ]
        lows = [float(r["min_int"] if r["kind"] == INT else r["min"]) for _, r in mine]
        highs = [float(r["max_int"] if r["kind"] == INT else r["max"]) for _, r in mine]
        assert found.rows[number] == len(mine)
        assert repr(float(found.min[number]) + 0.0) == repr(extreme(min, lows))
        assert repr(float(found.max[number]) + 0.0) == repr(extreme(max, highs))
        assert found.nan[number] == sum(int(r["nan"]) for _, r in mine)
        assert found.inf[number] == sum(int(r["posinf"]) for _, r in mine)
        assert found.last[number] == max((place for place, _ in mine), default=-1)


def is_in(scope: str, around: str) -> bool:
    return not around or scope == around or scope.startswith(around + "/")


def extreme(choose: Any, numbers: list[float]) -> float:
    known = [number + 0.0 for number in numbers if not math.isnan(number)]
    return float(choose(known)) if known else math.nan


def test_children_and_search() -> None:
    nodes = {i: make_node(i, scope, "") for i, scope in enumerate(["a/b", "a/c", "d"])}
    tree = scope_tree(nodes)
    assert [tree.names[child] for child in tree.children(0)] == ["a", "d"]
    (a,) = tree.find("a/b")
    assert tree.names[tree.parents[a]] == "a"
    assert tree.children(a) == []

"""The form of answers about what is drawn, the heat map and the graph; see `answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number
from opscope.views.node_answers import NodeLine


class HeatMap(TypedDict):
    """One number per scope and step."""

    stat: str
    scopes: Sequence[str]
    depths: Sequence[int]
    steps: Sequence[int]
    values: Sequence[Sequence[Number | None]]
    """One list per scope."""
    bad: Sequence[Sequence[int]]
    """1 where a value is not finite."""


class Box(TypedDict):
    """A scope or a node drawn in a graph."""

    id: str
    """`n12` for node 12, `s:SCOPE` for a scope, `o:…` for what comes from elsewhere."""
    kind: str
    """node, scope, outside or elsewhere (another scope that feeds or reads)."""
    label: str
    detail: str
    phase: str
    node: int | None
    scope: str
    nodes: int
    nan: Count
    inf: Count
    max: Number | None
    mean_abs: Number | None
    """The largest of its outputs."""
    zero_share: Number | None
    node_class: str
    """weight, gradient or activation; empty where it has several."""
    hits: int
    bad: bool
    """True if a value in it is not finite in this step."""
    reached: int
    """The number of its operators that the verdict's fault reached, in the step of the verdict."""
    is_origin: bool
    """True if the fault began there."""


class Edge(TypedDict):
    """Data that flows from one box to another."""

    start: str
    end: str
    label: str
    """dtype and shape, where all its values have the same."""
    values: int


class ScopeGraph(TypedDict):
    """One scope, drawn: what is directly in it, and its surroundings."""

    scope: str
    step: int | None
    boxes: Sequence[Box]
    edges: Sequence[Edge]
    hidden: int
    """The number of boxes left out since there are too many."""


class Passage(TypedDict):
    """A path goes from one box to another."""

    start: str
    end: str


class NodePath(TypedDict):
    """The way of data from one operator to another."""

    start: int
    end: int
    nodes: Sequence[NodeLine]
    """In the order in which data flows; none if it does not."""
    total: int
    why: str
    """The reason why a path cannot be found in what was recorded."""
    boxes: Sequence[str]
    """The boxes that they lie in, in the graph of the scope that was asked for."""
    edges: Sequence[Passage]

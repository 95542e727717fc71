"""The form of answers about nodes, scopes and their values; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number
from opscope.views.hit_answers import HitLine


class NodeLine(TypedDict):
    """A node in a list."""

    id: int
    name: str
    op_type: str
    scope: str
    phase: str
    graph: int
    where: str
    """`file:line` of the user's own line; empty where no such line led to it."""
    line: int
    file: str
    parameter: str
    gradient_of: str
    min: Number | None
    max: Number | None
    nan: Count
    inf: Count
    """Of its outputs in the step asked for."""
    hits: int


class NodeList(TypedDict):
    """Nodes that match, a page of them."""

    total: int
    step: int | None
    """The step the numbers are of."""
    nodes: Sequence[NodeLine]


class ScopeLine(TypedDict):
    """A scope in the tree."""

    name: str
    label: str
    """Its last part: `attribute-Class`."""
    scopes: int
    """The number of scopes directly in it."""
    nodes: int
    parameters: int
    rows: int
    min: Number | None
    max: Number | None
    nan: Count
    inf: Count
    hits: int


class Branch(TypedDict):
    """The scopes and nodes directly in a scope."""

    scope: str
    step: int | None
    scopes: Sequence[ScopeLine]
    nodes: Sequence[NodeLine]


class StackLine(TypedDict):
    """A frame with its code and a few lines around it."""

    file: str
    line: int
    function: str
    user: bool
    code: str | None
    around: Sequence[str]
    first: int
    """The number of the first line in `around`."""


class Numbers(TypedDict):
    """The statistics of one value; see docs/statistics.md."""

    count: Count
    min: Number | None
    max: Number | None
    mean: Number | None
    mean_abs: Number | None
    l2: Number | None
    std: Number | None
    nan: Count
    posinf: Count
    neginf: Count
    zero: Count
    negative: Count
    positive: Count


class Side(TypedDict):
    """An input or an output of a node in a step."""

    io: str
    slot: int
    address: str
    """The name that commands take: `NODE:slot`, `NODE:input:slot`."""
    dtype: str | None
    shape: Sequence[int] | None
    source: str
    """Of an input: where it comes from, in words."""
    source_node: int | None
    source_slot: int | None
    parameter: str
    uninitialised: bool
    numbers: Numbers | None
    extra: dict[str, Number | None]
    """The extra statistics that the run has of it, by name; null for one that has no number."""
    saved: bool
    """True if its elements can be looked at."""
    elements: Sequence[Number] | None
    """The elements themselves, of saved values with few."""


class Consumer(TypedDict):
    """A node that reads an output."""

    node: int
    name: str
    slot: int
    of: int


class NodeDetails(TypedDict):
    """Everything about one node, in a step."""

    id: int
    name: str
    op: str
    op_type: str
    scope: str
    module_class: str
    phase: str
    graph: int
    forward: int | None
    """The node that this one computes the gradient of."""
    backward: Sequence[int]
    """The nodes that compute the gradient of this one."""
    parameter: str
    gradient_of: str
    arguments: dict[str, str]
    step: int | None
    passes: int
    """The number of passes in the step."""
    pass_number: int
    stack: Sequence[StackLine]
    inputs: Sequence[Side]
    outputs: Sequence[Side]
    consumers: Sequence[Consumer]
    hits: Sequence[HitLine]


class Between(TypedDict):
    """Extremes of steps that were left out of older history."""

    first: Sequence[int]
    last: Sequence[int]
    min: Sequence[Number]
    max: Sequence[Number]
    nan: Sequence[Count]
    inf: Sequence[Count]


class Series(TypedDict):
    """One value over the steps."""

    steps: Sequence[int]
    passes: Sequence[int]
    numbers: dict[str, Sequence[Number | None]]
    between: Between

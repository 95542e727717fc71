"""The form of every answer: what the HTTP API documents and the page is typed by.

Only the server imports this module when it runs, since pydantic needs `typing_extensions`; the
functions that make the answers are checked against it by mypy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Required

from typing_extensions import TypedDict

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""JSON has no NaN: these three are strings."""
Count = int | str
"""Counts beyond 2^53 are strings."""


class RankState(TypedDict):
    """How a process of a run is doing, or how it ended."""

    rank: int
    state: str
    """running, finished, stopped, failed or killed."""
    words: str
    """The same in words, with the reason."""
    pid: int | None
    host: str
    first_step: int | None
    last_step: int | None
    nodes: int
    hits: int


class RunLine(TypedDict):
    """A run or a dump in a list."""

    id: str
    name: str
    kind: str
    """run or dump."""
    state: str
    started: str
    script: str
    ranks: int
    steps: int
    loss: Number | None
    size: Count
    live: bool
    """Whether a training is connected that can be controlled."""
    recording: bool
    """Whether its recorder has left how it ended."""


class RunDetails(TypedDict):
    """A run or a dump."""

    id: str
    name: str
    path: str
    kind: str
    state: str
    started: str
    script: str
    command: Sequence[str]
    versions: dict[str, str]
    """opscope, torch, python, platform; what is not known is left out."""
    world_size: int
    ranks: Sequence[RankState]
    lacks: dict[str, str]
    """What cannot be asked of it, each with the sentence for that."""
    live: bool
    recording: bool
    """Whether its recorder has left how it ended."""


class Lane(TypedDict):
    """The hits of one watchpoint over the steps."""

    watchpoint: int
    label: str
    condition: str
    steps: Sequence[int]
    """Steps with hits, in order, each once."""
    counts: Sequence[int]


class Strip(TypedDict):
    """A training over all its steps; all lists but `lanes` and `recorded` are as long as `steps`.

    Where there are more steps than asked for, each entry stands for a stretch that ends with its
    step: the last loss, the largest of the other numbers; `loss_low` and `loss_high` bound it.
    """

    steps: Sequence[int]
    loss: Sequence[Number | None]
    loss_low: Sequence[Number | None]
    loss_high: Sequence[Number | None]
    gradient_norm: Sequence[Number | None]
    seconds: Sequence[Number | None]
    operators: Sequence[int]
    passes: Sequence[int]
    lanes: Sequence[Lane]
    recorded: Sequence[int]
    """Steps that have numbers of operators; of a long run, older ones are thinned."""
    pending: int
    """Recorded steps whose gradient norm is not known yet: ask again for them."""


class StepLine(TypedDict):
    """One step in the table of steps."""

    step: int
    losses: Sequence[Number]
    gradient_norm: Number | None
    seconds: Number | None
    operators: int
    passes: int
    skipped: bool
    complete: bool
    recorded: bool
    hits: int


class Steps(TypedDict):
    """Steps, the latest first."""

    total: int
    steps: Sequence[StepLine]


class Span(TypedDict):
    """What some values say together."""

    rows: int
    min: Number | None
    max: Number | None
    nan: Count
    inf: Count


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
    """How many scopes are directly in it."""
    nodes: int
    parameters: int
    rows: int
    min: Number | None
    max: Number | None
    nan: Count
    inf: Count
    hits: int


class Branch(TypedDict):
    """What is directly in a scope."""

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
    """How commands call it: `NODE:slot`, `NODE:input:slot`."""
    dtype: str | None
    shape: Sequence[int] | None
    source: str
    """Of an input: where it comes from, in words."""
    source_node: int | None
    source_slot: int | None
    parameter: str
    uninitialised: bool
    numbers: Numbers | None
    saved: bool
    """Whether its elements can be looked at."""
    elements: Sequence[Number] | None
    """The elements themselves, of saved values with few."""


class Consumer(TypedDict):
    """A node that reads an output."""

    node: int
    name: str
    slot: int
    of: int


class HitLine(TypedDict):
    """One hit of a watchpoint."""

    step: int
    rank: int
    watchpoint: int
    label: str
    condition: str
    message: str
    params: dict[str, Number]
    actual: dict[str, Number]
    node: int | None
    name: str
    io: str | None
    slot: int
    call: int
    phase: str
    parameter: str
    where: str
    has_verdict: bool


class Hits(TypedDict):
    """Hits in the order of execution, a page of them."""

    total: int
    hits: Sequence[HitLine]


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
    """How many passes the step has."""
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


class SourceFile(TypedDict):
    """A file of the user's that operators came from."""

    file: str
    name: str
    nodes: int
    lines: int
    """How many of its lines have operators."""
    nan: Count
    inf: Count
    hits: int
    worst: int | None
    """The line to look at: of the first hit, or with the largest number."""


class SourceFiles(TypedDict):
    """The files, in the order in which they were first seen."""

    step: int | None
    files: Sequence[SourceFile]


class LineMark(TypedDict):
    """What stands beside a line of source."""

    line: int
    nodes: int
    forward: int
    backward: int
    other: int
    ops: Sequence[str]
    min: Number | None
    max: Number | None
    mean_abs: Number | None
    nan: Count
    inf: Count
    backward_max: Number | None
    """The largest magnitude among gradients that the line's backward computes."""
    backward_bad: Count
    """How many elements of these are not finite; `nan` and `inf` count them too."""
    hits: int
    first_node: int


class SourceText(TypedDict):
    """A file with what its lines computed in a step."""

    file: str
    step: int | None
    text: Sequence[str]
    """Empty where the run has no copy of it."""
    marks: Sequence[LineMark]


class LineTrends(TypedDict):
    """What the lines of a file computed over steps; one list for each of `lines`."""

    file: str
    steps: Sequence[int]
    lines: Sequence[int]
    values: Sequence[Sequence[Number | None]]
    """The largest |x| of the line's outputs."""
    bad: Sequence[Sequence[int]]
    """1 where a value is not finite."""


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
    hits: int
    bad: bool
    """Whether a value in it is not finite in this step."""


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
    """How many boxes were left out since there are too many."""


class Verdict(TypedDict):
    """What is wrong, or that nothing is."""

    sentence: str
    story: dict[str, Any] | None
    """The whole verdict as `opscope hits --json` has it."""
    text: Sequence[str]
    """The same as lines of a terminal."""
    step: int | None
    hits: int
    groups: Sequence[HitGroup]
    state: str


class HitGroup(TypedDict):
    """Hits of one kind."""

    condition: str
    label: str
    count: int
    first_step: int
    last_step: int
    message: str
    node: int | None
    name: str
    where: str


class ParameterFacts(TypedDict):
    """A parameter of a condition."""

    name: str
    words: str
    """The same for people."""
    unit: str
    low: float | None
    high: float | None
    default: Number | None
    allowed: str
    """What a value must be, in words."""
    is_threshold: bool
    """Whether it is one of those of which at least one must be given."""


class ConditionFacts(TypedDict):
    """A condition that watchpoints can have."""

    abbr: str
    id: str
    target: str
    summary: str
    nonfinite: bool
    parameters: Sequence[ParameterFacts]


class Standing(TypedDict):
    """The node that a training holds at."""

    node: int
    name: str
    call: int
    where: str
    """Its line, as `file:line`."""


class LiveRank(TypedDict):
    """How a connected rank stands."""

    rank: int
    state: str
    """running, paused, waiting (before step 0), ended, lost (the connection broke) or dead."""
    reason: str
    step: int
    node: Standing | None
    hit: dict[str, Any] | None
    keep: str
    """Whose values are kept: named, all or none."""
    kept: Sequence[str]
    """The nodes and parameters that are named."""
    dropped: int
    pid: int
    host: str


class KeptSide(TypedDict):
    """A value that went into a node or came out of it."""

    slot: int
    dtype: str
    shape: Sequence[int]


class CurrentNode(TypedDict):
    """The node that a training holds at."""

    step: int
    call: int
    node: int
    name: str
    op_type: str
    phase: str
    where: str
    """Its line, as `file:line`."""
    inputs: Sequence[KeptSide]
    outputs: Sequence[KeptSide]


class LiveState(TypedDict):
    """How the connected ranks of a run stand."""

    live: bool
    watchers: int
    """How many people look."""
    ranks: Sequence[LiveRank]


class Order(TypedDict, total=False):
    """What a training is to do."""

    verb: Required[str]
    """pause, step, continue, next, to or terminate."""
    count: int
    """Of steps."""
    node: str
    """The node to run to."""


class Recheck(TypedDict):
    """What watchpoints find in one step."""

    step: int
    hits: Sequence[dict[str, Any]]
    unchecked: Sequence[dict[str, Any]]
    """What could not be checked, and why."""
    notes: Sequence[str]
    values: int
    """How often a value was looked at by a watchpoint."""
    unchecked_values: int
    """How often one could not be."""


class Problem(TypedDict):
    """Why a question could not be answered."""

    error: str

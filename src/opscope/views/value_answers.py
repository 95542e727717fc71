"""The form of the answers about one value; see `answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number
from opscope.views.hit_answers import HitLine
from opscope.views.node_answers import Numbers


class Extreme(TypedDict):
    """Where an element is: in the value, and in the rows and columns it is shown as."""

    index: Sequence[int]
    value: Number | Count
    row: int
    column: int


class Places(TypedDict):
    """Where the first of these elements are; nothing where there is none."""

    min: Extreme | None
    max: Extreme | None
    nan: Extreme | None
    posinf: Extreme | None
    neginf: Extreme | None


class PictureKind(TypedDict):
    """What a value looks like as pictures."""

    kind: str
    """filters, images, channels or attention."""
    count: int
    height: int
    width: int
    colours: int
    """3 for red, green and blue, otherwise 1."""


class ValueHit(TypedDict):
    """A hit on a value, what its condition means, and what helps."""

    hit: HitLine
    summary: str
    advice: str


class ValueFacts(TypedDict):
    """A value: what is known of it without looking at its elements one by one."""

    address: str
    node: int
    name: str
    op_type: str
    io: str
    slot: int
    rank: int
    step: int | None
    dtype: str | None
    shape: Sequence[int] | None
    numbers: Numbers | None
    held: str
    """Where its elements are: dump, hit (saved with one), kept or parameter (in a training that
    is connected); empty where nobody has them."""
    why: str
    """Why nobody has them."""
    previous: int | None
    """The last step before whose elements there are."""
    ranks: Sequence[int]
    """The ranks that have the same operator."""
    pictures: PictureKind | None
    parameter: str
    source_node: int | None
    source_slot: int | None
    hits: Sequence[ValueHit]


class Span(TypedDict):
    """What is looked at of one axis."""

    start: int
    step: int
    count: int
    ranged: bool


class Layout(TypedDict):
    """How the elements that are looked at are laid out as rows and columns, one after the other."""

    axes: Sequence[Span]
    shape: Sequence[int]
    dtype: str
    rows: int
    columns: int


class Slice(TypedDict):
    """Elements of a value."""

    shape: Sequence[int]
    """Of the slice."""
    elements: Sequence[Number | Count]
    """In the order of the last axis first."""


class Block(TypedDict):
    """Some rows and columns of elements."""

    top: int
    left: int
    rows: int
    columns: int
    elements: Sequence[Number | Count]
    now: Sequence[Number | Count]
    before: Sequence[Number | Count]
    """What a difference is of; empty otherwise."""


class Tile(TypedDict):
    """A value reduced to a picture: the extremes of each cell, to seven digits."""

    rows: int
    columns: int
    cell: Sequence[int]
    """How many rows and columns of the value a cell of the picture stands for."""
    top: int
    left: int
    low: Sequence[Number | None]
    high: Sequence[Number | None]
    nan: Sequence[int]
    posinf: Sequence[int]
    neginf: Sequence[int]


class Histogram(TypedDict):
    """How many elements lie between edges."""

    edges: Sequence[Number]
    counts: Sequence[Count]
    negative: Sequence[Count]
    """How many of these are below zero."""
    nan: Count
    posinf: Count
    neginf: Count
    zero: Count


class Spread(TypedDict):
    """How elements are spread."""

    quantiles: Sequence[Sequence[Number | Count]]
    """Shares, each with the number that so many elements are below of."""
    sampled: bool
    """Whether these are of a sample."""
    clip: Number
    """Nearly all magnitudes are up to this."""
    faint: Number
    """Nearly all magnitudes but zero are from this on."""


class Statistics(Spread):
    """The numbers of the elements that are looked at."""

    numbers: Numbers


class Along(TypedDict):
    """The numbers of each place along one axis."""

    axis: int
    total: int
    index: Sequence[int]
    numbers: Sequence[Numbers]


class Compared(TypedDict):
    """How far two values are apart."""

    elements: Count
    differing: Count
    """How many are not equal."""
    beyond: Count
    """How many differ by more than the tolerance."""
    unlike: Count
    """How many are finite in only one of them."""
    max_abs: Number
    mean_abs: Number
    cosine: Number
    index: Sequence[int] | None
    row: int | None
    column: int | None


class Pictures(PictureKind):
    """Some of the pictures of a value, each row by row."""

    first: int
    shown: int
    rows: int
    columns: int
    elements: Sequence[Number | Count]


class RelatedValue(TypedDict):
    """A tensor in the diagram of relations."""

    id: str
    kind: str
    """value, or what comes from outside: parameter, buffer, batch, state, outside."""
    node: int
    io: str
    slot: int
    """Its address; of what comes from outside, that of an input which it is."""
    label: str
    op_type: str
    scope: str
    where: str
    level: int
    """How many operators it is away; below zero for what leads to the centre."""
    dtype: str | None
    shape: Sequence[int] | None
    numbers: Numbers | None
    conditions: Sequence[str]
    """Abbreviations of the conditions that it hit in this step."""


class Relation(TypedDict):
    """A tensor that another is computed from."""

    start: str
    end: str


class Relations(TypedDict):
    """What a value was computed from, and what it feeds."""

    centre: str
    step: int | None
    values: Sequence[RelatedValue]
    edges: Sequence[Relation]
    hidden: int
    """How many were left out since there are too many."""

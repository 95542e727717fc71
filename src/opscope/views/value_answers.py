"""The form of the answers about one value; see `answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number
from opscope.views.hit_answers import HitLine
from opscope.views.node_answers import Numbers


class Extreme(TypedDict):
    """The place of an element: in the value, and in the rows and columns it is shown as."""

    index: Sequence[int]
    value: Number | Count
    row: int
    column: int


class Places(TypedDict):
    """The places of the first of these elements; nothing where there is none."""

    min: Extreme | None
    max: Extreme | None
    nan: Extreme | None
    posinf: Extreme | None
    neginf: Extreme | None


class PictureKind(TypedDict):
    """The pictures that a value can be shown as."""

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
    """The place that holds its elements: dump, hit (saved with one), kept or parameter (in a
    training that is connected); empty where nobody has them."""
    why: str
    """The reason why nobody has them."""
    previous: int | None
    """The last step before whose elements there are."""
    ranks: Sequence[int]
    """The ranks that have the same operator."""
    pictures: PictureKind | None
    parameter: str
    source_node: int | None
    source_slot: int | None
    hits: Sequence[ValueHit]


class AxisSpan(TypedDict):
    """The part of one axis that is looked at."""

    start: int
    step: int
    count: int
    ranged: bool


class Layout(TypedDict):
    """The layout of the elements that are looked at as rows and columns, one after the other."""

    axes: Sequence[AxisSpan]
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
    """The value that a difference is taken from; empty otherwise."""


class Tile(TypedDict):
    """A value reduced to a picture: the extremes of each cell, to seven digits."""

    rows: int
    columns: int
    cell: Sequence[int]
    """The number of rows and columns of the value that a cell of the picture stands for."""
    top: int
    left: int
    low: Sequence[Number | None]
    high: Sequence[Number | None]
    nan: Sequence[int]
    posinf: Sequence[int]
    neginf: Sequence[int]


class Histogram(TypedDict):
    """The numbers of elements between edges."""

    edges: Sequence[Number]
    counts: Sequence[Count]
    negative: Sequence[Count]
    """The numbers of those below zero."""
    nan: Count
    posinf: Count
    neginf: Count
    zero: Count


class Spread(TypedDict):
    """The spread of the elements."""

    quantiles: Sequence[Sequence[Number | Count]]
    """Shares, each with the number that so many elements are below of."""
    sampled: bool
    """True if these are of a sample."""
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
    """The distance between two values."""

    elements: Count
    differing: Count
    """The number of elements that are not equal."""
    beyond: Count
    """The number that differ by more than the tolerance."""
    unlike: Count
    """The number that are finite in only one of them."""
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
    """The number of operators it is away; below zero for what leads to the centre."""
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
    """The values that a value was computed from, and that it feeds."""

    centre: str
    step: int | None
    values: Sequence[RelatedValue]
    edges: Sequence[Relation]
    hidden: int
    """The number left out since there are too many."""

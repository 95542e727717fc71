"""The form of answers about watchpoints; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from opscope.views.answers import Number
from opscope.views.hit_answers import HitLine


class SelectedValue(TypedDict):
    """A value that a watchpoint might look at."""

    node: int
    name: str
    """Of its node."""
    parameter: str
    """For watchpoints on weights: which one it is."""
    on: bool


class SelectedScope(TypedDict):
    """The share of a scope that a watchpoint looks at."""

    name: str
    label: str
    total: int
    selected: int


class Selected(TypedDict):
    """The values a watchpoint looks at, of all that it could."""

    about: str
    """values, parameters, or training as a whole, of which nothing can be selected."""
    total: int
    selected: int
    muted: int
    """The number of those that its selection matches but that are left alone."""
    found: int
    """The number that match the text that was searched for."""
    scopes: Sequence[SelectedScope]
    """Those directly in the scope that was asked for."""
    values: Sequence[SelectedValue]
    """The same; or those that match the text."""


class Ticked(TypedDict):
    """A selection after something was ticked or unticked."""

    select: dict[str, str]
    mute: Sequence[str]


class Preview(TypedDict):
    """The findings of a watchpoint in the steps recorded last."""

    steps: int
    """The number of steps that were looked at."""
    first: int | None
    last: int | None
    hits: int
    steps_hit: int
    by_step: Sequence[Sequence[int]]
    """Step and hits, of the steps that have some."""
    examples: Sequence[HitLine]
    values: int
    """The number of times a value was looked at."""
    unchecked: Sequence[dict[str, Any]]
    """The values that could not be checked, and why."""


class ThresholdHistory(TypedDict):
    """The number that a threshold is compared with, over the steps recorded last."""

    parameter: str
    above: bool
    """True if numbers above the threshold hit, false if those below do."""
    steps: Sequence[int]
    low: Sequence[Number]
    """The least of each step."""
    high: Sequence[Number]
    total: int
    """The number of all numbers."""
    sample: Sequence[Number]
    """Some of them, in order, evenly spaced, with both ends."""
    suggested: Number | None
    """A threshold that nothing so far passes, with some room."""


class ExpressionThreshold(TypedDict):
    """A number in an expression that something is compared with."""

    measured: str
    """The expression that is compared with it."""
    sign: str
    value: Number
    start: int
    """The characters of the text that it stands at."""
    end: int


class RankRow(TypedDict):
    """The state of a rank beside the others."""

    rank: int
    state: str
    last_step: int | None
    loss: Number | None
    gradient_norm: Number | None
    hits: int
    nodes: int


class RankDifference(TypedDict):
    """A difference between ranks that should not be."""

    kind: str
    """nodes, weights, not_finite or steps."""
    step: int
    rank: int
    """The rank that differs from the others."""
    node: int | None
    """On that rank."""
    name: str
    parameter: str
    where: str
    what: str


class RanksCompared(TypedDict):
    """All ranks, and the first difference of each kind, the earliest first."""

    ranks: Sequence[RankRow]
    differences: Sequence[RankDifference]
    steps: int
    """The number of steps that were compared."""


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
    """The values that are allowed, in words."""
    is_threshold: bool
    """True if it is one of those of which at least one must be given."""


class ConditionFacts(TypedDict):
    """A condition that watchpoints can have."""

    abbr: str
    id: str
    target: str
    summary: str
    nonfinite: bool
    parameters: Sequence[ParameterFacts]

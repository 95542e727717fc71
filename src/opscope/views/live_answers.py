"""The form of answers about trainings that are connected; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Required

from typing_extensions import TypedDict


class Standing(TypedDict):
    """The node that a training holds at."""

    node: int
    name: str
    call: int
    where: str
    """Its line, as `file:line`."""


class LiveRank(TypedDict):
    """The state of a connected rank."""

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
    """The state of the connected ranks of a run."""

    live: bool
    watchers: int
    """The number of people who look."""
    ranks: Sequence[LiveRank]


class Order(TypedDict, total=False):
    """An order to a training."""

    verb: Required[str]
    """pause, step, continue, next, to or terminate."""
    count: int
    """Of steps."""
    node: str
    """The node to run to."""


class Recheck(TypedDict):
    """The findings of watchpoints in one step."""

    step: int
    hits: Sequence[dict[str, Any]]
    unchecked: Sequence[dict[str, Any]]
    """The values that could not be checked, and why."""
    notes: Sequence[str]
    values: int
    """The number of times a watchpoint looked at a value."""
    unchecked_values: int
    """The number of times one could not be looked at."""

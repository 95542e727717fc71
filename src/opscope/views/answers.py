"""The form of answers about runs and their steps; those of other subjects are beside it.

This is what the HTTP API documents and the page is typed by. Only the server imports these modules
when it runs, since pydantic needs `typing_extensions`; the
functions that make the answers are checked against it by mypy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from typing_extensions import TypedDict

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""JSON has no NaN: these three are strings."""
Count = int | str
"""Counts beyond 2^53 are strings."""


class RankState(TypedDict):
    """The state of a process of a run, or how it ended."""

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
    """True if a training is connected that can be controlled."""
    recording: bool
    """True if its recorder has left how it ended."""


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
    """The questions it cannot answer, each with a sentence why."""
    live: bool
    recording: bool
    """True if its recorder has left how it ended."""


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


class ErrorAnswer(TypedDict):
    """The reason why a question could not be answered."""

    error: str

"""The form of answers about hits and the verdict; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from opscope.views.answers import Number


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


class HitHistory(HitGroup):
    """The same with how it went on."""

    watchpoint: int
    parameter: str
    params: dict[str, Number]
    steps: Sequence[int]
    """The steps that it was hit in, each once; of very many, some of them."""
    actual: dict[str, Sequence[Number | None]]
    """The numbers found in these steps, by the name of the threshold."""


class HitGroups(TypedDict):
    """Hits of the same kind together, a page of them."""

    total: int
    hits: int
    """The number of hits."""
    groups: Sequence[HitHistory]


class NoteLine(TypedDict):
    """NaN or Inf that did no harm; it is no hit."""

    kind: str
    """skipped: a batch that the script left out; masked: a value that got nowhere."""
    step: int
    message: str
    node: int | None
    name: str
    slot: int
    where: str


class Notes(TypedDict):
    """A page of the notes on what did no harm, in the order they were made."""

    total: int
    notes: Sequence[NoteLine]


class Verdict(TypedDict):
    """The verdict: what is wrong, or that nothing is."""

    sentence: str
    story: dict[str, Any] | None
    """The whole verdict as `opscope hits --json` has it."""
    text: Sequence[str]
    """The same as lines of a terminal."""
    step: int | None
    hits: int
    notes: int
    """The number of notes on what did no harm."""
    groups: Sequence[HitGroup]
    state: str

"""The interface of every reader: a recording, its ranks, and what each recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from opscope.calls import Calls
from opscope.events import Frame, Node, Stack, StepRecord
from opscope.read.calls import Variant
from opscope.read.extra_stats import ExtraStats
from opscope.read.hits import RecordedHit
from opscope.read.row_store import Records
from opscope.read.state import State
from opscope.read.value import Value
from opscope.value_type import ValueType


class Pass(NamedTuple):
    """One call of the outermost module within a step, with what belongs to it."""

    step: int
    number: int


class RankReader(Protocol):
    """The recording of one process. Any thread may ask; what it got stays as it is.

    A recording that is being written is seen as it was when it was first asked for, and after
    `refresh` as it is then.
    """

    @property
    def number(self) -> int:
        """The rank."""

    @property
    def path(self) -> Path:
        """Its directory."""

    @property
    def state(self) -> State:
        """The state of the process, or how it ended."""

    @property
    def steps(self) -> Sequence[StepRecord]:
        """The steps that ended, in order."""

    def passes(self, step: int) -> Sequence[Pass]:
        """The passes of a step."""

    def pass_of(self, step: int, call: int) -> int | None:
        """The pass that a call belongs to; None where its step has only one."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Nodes by id, with the edges they had last."""

    def graph(self, number: int) -> Sequence[Node]:
        """The nodes of one graph, by id."""

    @property
    def stacks(self) -> Mapping[int, Stack]:
        """Call stacks by id."""

    @property
    def variants(self) -> Mapping[int, Sequence[Variant]]:
        """The variants of their sources that nodes have had, of those that had several."""

    def calls(self, step: int, records: Records) -> Calls:
        """The calls of a step; of one that was not finished, those that these rows are of."""

    @property
    def types(self) -> Mapping[int, ValueType | None]:
        """Dtypes and shapes by the id in a row's `shape`."""

    def stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Records:
        """Rows, in the order they were written; of some nodes or steps only, if given."""

    @property
    def part_count(self) -> int:
        """The number of parts that `parts_of_stats` has."""

    def parts_of_stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """The same in parts."""

    @property
    def recorded_steps(self) -> Sequence[int]:
        """The steps that have rows."""

    @property
    def known_numbers(self) -> frozenset[str]:
        """The numbers that every row has: fields of `Row`."""

    @property
    def extra_stats(self) -> ExtraStats:
        """The statistics beside those of the rows."""

    def parts_of_between(self) -> Iterator[Records]:
        """Extremes of what was left out, in parts."""

    def between(self, nodes: Collection[int] | None = None) -> Records:
        """Extremes of steps that were left out of older history, by node."""

    def history(self, nodes: Collection[int]) -> tuple[Records, Records]:
        """The rows of some nodes and the extremes of what was left out, of the same moment."""

    def values(self, nodes: Collection[int], steps: Collection[int] | None = None) -> list[Value]:
        """The values of some nodes, in the order they were made."""

    @property
    def hits(self) -> Sequence[RecordedHit]:
        """The hits of watchpoints while it ran."""

    def refresh(self) -> None:
        """Read what has been written since."""


class Recording(Protocol):
    """A run, a dump, or whatever else can be read like one."""

    @property
    def path(self) -> Path:
        """The directory it is in."""

    @property
    def kind(self) -> str:
        """The kind of recording, in a word."""

    @property
    def lacks(self) -> Mapping[str, str]:
        """The questions it cannot answer ("edges", "code", "hits"), each with a sentence why."""

    @property
    def started(self) -> str:
        """The time at which it began: ISO 8601, or nothing if that is not known."""

    @property
    def state(self) -> str:
        """The state or end of it, in words."""

    @property
    def ranks(self) -> Mapping[int, RankReader]:
        """The ranks there are, by number."""

    def rank(self, number: int) -> RankReader:
        """One rank; an error names those there are."""

    def code(self, frame: Frame) -> str | None:
        """The line of a frame; None if it is not known."""

    def source(self, file: str) -> list[str]:
        """The lines of a file as it is called in stacks; none if they are not known."""

    def refresh(self) -> None:
        """Read what has been written since."""

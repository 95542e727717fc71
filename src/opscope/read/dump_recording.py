"""A dump as a recording."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from opscope.calls import Calls
from opscope.errors import OpscopeError
from opscope.events import Frame, Node, Stack, StepRecord
from opscope.read.calls import LinkBook, Variant
from opscope.read.dump import Dump, DumpRank, open_dump
from opscope.read.extra_stats import ExtraStats
from opscope.read.hits import RecordedHit
from opscope.read.recording import Pass
from opscope.read.row_store import Records
from opscope.read.state import State, overall
from opscope.read.value import Value, value_of
from opscope.rundir.ending import FINISHED
from opscope.rundir.thinning import join_between
from opscope.stats.record import VALID, taken
from opscope.value_type import ValueType


class DumpReader:
    """One rank of a dump."""

    def __init__(self, dumped: DumpRank) -> None:
        self._dumped = dumped
        self.number = dumped.number
        self.path = dumped.path
        self.stacks: Mapping[int, Stack] = {}
        self.variants: Mapping[int, Sequence[Variant]] = {}
        self.hits: Sequence[RecordedHit] = ()

    @property
    def state(self) -> State:
        """As the manifest has it: a dump is finished, broken off, or not known to have ended."""
        manifest = self._dumped.manifest or {}
        if not manifest.get("ended"):
            return State("not finished")
        return State(FINISHED, incomplete=str(manifest.get("failure") or ""))

    @cached_property
    def steps(self) -> list[StepRecord]:
        """The steps there is data of; a dump tells neither losses nor times."""
        return [StepRecord(step, self._calls(step), [], math.nan) for step in self._dumped.steps]

    def passes(self, step: int) -> list[Pass]:
        """A dump does not tell passes apart."""
        return [Pass(step, 0)]

    def pass_of(self, step: int, call: int) -> int | None:
        """A dump does not tell passes apart."""
        return None

    @property
    def nodes(self) -> dict[int, Node]:
        """Operators by id, and parameters (of type `Parameter`)."""
        return self._dumped.nodes

    def graph(self, number: int) -> list[Node]:
        """The nodes of one graph."""
        return [node for node in self.nodes.values() if node.graph == number]

    @property
    def types(self) -> Mapping[int, ValueType | None]:
        """Dtypes and shapes by the id in a row's `shape`."""
        return self._dumped.types

    def stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Records:
        """The rows of `statistic.csv`; of values that were only saved there are none."""
        records = self._dumped.values(steps).records
        wanted = records["valid"] == VALID
        if nodes is not None:
            wanted &= [number in nodes for number in records["node"].tolist()]
        return taken(records, wanted)

    @property
    def part_count(self) -> int:
        """The number of parts that `parts_of_stats` has."""
        return len(self._dumped.steps)

    def parts_of_stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """The same, a step at a time."""
        for step in self._dumped.steps:
            if steps is None or step in steps:
                yield self.stats(nodes, {step})

    @property
    def recorded_steps(self) -> list[int]:
        """The steps there is data of."""
        return self._dumped.steps

    @property
    def known_numbers(self) -> frozenset[str]:
        """The columns that its tables have, and what follows from them."""
        return self._dumped.values().known

    @property
    def extra_stats(self) -> ExtraStats:
        """A dump has none."""
        return ExtraStats()

    def parts_of_between(self) -> Iterator[Records]:
        """A dump leaves nothing out behind one's back."""
        return iter(())

    def between(self, nodes: Collection[int] | None = None) -> Records:
        """A dump leaves nothing out behind one's back."""
        return join_between([])

    def history(self, nodes: Collection[int]) -> tuple[Records, Records]:
        """The rows of some nodes; nothing is left out."""
        return self.stats(nodes), self.between()

    def values(self, nodes: Collection[int], steps: Collection[int] | None = None) -> list[Value]:
        """The values of some nodes, in the order they were made."""
        records, stored, dtypes, known = self._dumped.values(steps)
        return [
            value_of(self, record, where, dtype, known)
            for record, where, dtype in zip(records, stored, dtypes, strict=True)
            if int(record["node"]) in nodes
        ]

    def refresh(self) -> None:
        """Look at the directory anew."""
        self._dumped = DumpRank(self.number, self.path)
        self.__dict__.pop("steps", None)

    def calls(self, step: int, records: Records) -> Calls:
        """The calls that these rows are of."""
        return LinkBook().of_rows(step, records, self.nodes)

    def _calls(self, step: int) -> Calls:
        """The operators of each graph that has data of a step, in the order they ran."""
        graphs = {graph for graph, of in self._dumped.directories if of == step}
        by_name = {(node.graph, node.name): node for node in self.nodes.values()}
        orders = self._dumped.orders
        return Calls([by_name[g, name] for g in sorted(graphs) for name in orders.get(g, ())])


class DumpRecording:
    """A dump, read like a run."""

    kind = "dump"
    lacks: Mapping[str, str] = {
        "edges": "a dump does not say where inputs come from; open the run",
        "code": "a dump has no source lines; open the run to select by them",
        "hits": "a dump has no hits of its own; opscope check finds them",
    }

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.path = dump.path
        self.ranks = {number: DumpReader(rank) for number, rank in dump.ranks.items()}

    @property
    def started(self) -> str:
        """The time at which its first rank began."""
        manifests = (rank.manifest or {} for rank in self.dump.ranks.values())
        return min((str(m["started"]) for m in manifests if m.get("started")), default="")

    @property
    def state(self) -> str:
        """The state or end of it, in words."""
        return overall({number: rank.state for number, rank in self.ranks.items()})

    def rank(self, number: int) -> DumpReader:
        """One rank; an error names those there are."""
        if number not in self.ranks:
            known = ", ".join(map(str, self.ranks)) or "none"
            raise OpscopeError(f"{self.path} has no rank {number}; it has: {known}")
        return self.ranks[number]

    def code(self, frame: Frame) -> str | None:
        """A dump has no source lines."""
        return None

    def source(self, file: str) -> list[str]:
        """A dump has no source lines."""
        return []

    def refresh(self) -> None:
        """Look at the directory anew."""
        self.dump = open_dump(self.path)
        self.ranks = {number: DumpReader(rank) for number, rank in self.dump.ranks.items()}


def open_dump_recording(path: Path) -> DumpRecording:
    """The dump in a directory."""
    return DumpRecording(open_dump(path))

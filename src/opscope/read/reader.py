"""A run or a dump, and questions to ask it; `opscope.analysis.opened` adds checks to them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from opscope.errors import OpscopeError
from opscope.events import IO, Frame, Node, Output, Source
from opscope.judge.selection import at_line
from opscope.read.dump import Dump
from opscope.read.dump_recording import DumpRecording, open_dump_recording
from opscope.read.find import find_run, is_dump
from opscope.read.hits import RecordedHits
from opscope.read.html import run_table
from opscope.read.nodes import find_node, parse_address
from opscope.read.notes import read_notes
from opscope.read.one_value import find_value
from opscope.read.recording import Recording
from opscope.read.row_store import Records
from opscope.read.run import Run, open_run
from opscope.read.scope_tree import Aggregates, ScopeTree, scope_tree
from opscope.read.value import Value
from opscope.stats.record import INPUT, OUTPUT, taken
from opscope.wording import counted

_T = TypeVar("_T")
BY = ("name", "line", "code", "op_type", "scope", "parameter")


class ConsumerSlot(NamedTuple):
    """A node that reads an output, and in which of its input slots."""

    node: Node
    slot: int
    of: int
    """The slot of the output that it reads."""


class ValueSeries(NamedTuple):
    """One value over the steps, in their order."""

    rows: Records
    between: Records
    """Extremes of steps that were left out, each from its `first` to its `last`."""


def open_reader(path: str | Path) -> Reader:
    """The run or dump that a path, or the name of a run, means."""
    return Reader(open_recording(path))


def open_recording(path: str | Path) -> Run | DumpRecording:
    """The same, without the questions."""
    found = Path(path)
    if is_dump(found):
        return open_dump_recording(found)
    try:
        return open_run(find_run(str(path)))
    except OpscopeError as error:
        if found.is_dir() and "no run" in str(error):
            message = f"{path} is neither a run (no run.json) nor a dump (no rank_N/.dump_metadata)"
            raise OpscopeError(message) from None
        raise


class Reader:
    """A run or a dump, finished or still being written.

    >>> import opscope
    >>> run = opscope.open("last")  # doctest: +SKIP
    >>> for node in run.select_nodes("train.py:12", by="line"):  # doctest: +SKIP
    ...     print(node.name, node.phase)
    """

    def __init__(self, recording: Run | DumpRecording) -> None:
        self.recording: Recording = recording
        self._opened = recording
        self.path = recording.path
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}

    def __repr__(self) -> str:
        steps = counted(len(self.steps), "step")
        return f"<{self.recording.kind} {self.path}, ranks {self.ranks}, {steps}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        facts = [("path", self.path), ("state", self.state), ("ranks", len(self.ranks))]
        facts += [("steps", len(self.steps))]
        hits = [] if "hits" in self.recording.lacks else self.hits()
        return run_table(facts, [hit.data for hit in hits])

    @property
    def recorded(self) -> Run | Dump:
        """The run or dump that checks work on."""
        return self._opened.dump if isinstance(self._opened, DumpRecording) else self._opened

    @property
    def is_run(self) -> bool:
        """True if it is a run directory; else it is a dump."""
        return self.recording.kind == "run"

    @property
    def state(self) -> str:
        """The state or end of it, in words."""
        return self.recording.state

    def refresh(self) -> None:
        """Read what has been written since."""
        with self._lock:
            self.recording.refresh()
            self._made = {}

    @property
    def ranks(self) -> list[int]:
        """The ranks there are."""
        return list(self.recording.ranks)

    @property
    def steps(self) -> list[int]:
        """The steps that any rank has."""
        return sorted({step for number in self.ranks for step in self.steps_of(number)})

    def steps_of(self, rank: int) -> list[int]:
        """The steps of one rank."""
        return [record.step for record in self.recording.rank(rank).steps]

    # ------------------------------------------------------------------ nodes

    def select_nodes(
        self,
        query: str = "",
        *,
        regex: bool = False,
        by: str = "name",
        ranks: Collection[int] | None = None,
        first: int = 0,
        count: int | None = None,
    ) -> list[Node]:
        """The nodes that match, rank by rank; `count` of them from the `first` on, if given.

        `by` is "name" (a part of the name), "line" (`file.py:12` or `file.py`, also of a caller),
        "code" (a part of the operator's line), "op_type", "scope" or "parameter" (globs). With
        `regex` a regular expression is searched for in each of these instead.

        >>> run.select_nodes("conv1")  # doctest: +SKIP
        >>> run.select_nodes(r"fc[12]-Linear/addmm", regex=True)  # doctest: +SKIP
        >>> run.select_nodes("model.py:31", by="line")  # doctest: +SKIP
        """
        if by not in BY:
            raise OpscopeError(f'by = "{by}": must be one of {", ".join(BY)}')
        if by in ("line", "code") and query:
            self._require("code")
        matches = self._matcher(query, regex, by)
        found = (
            node
            for number in self.chosen_ranks(ranks)
            for node in self.recording.rank(number).nodes.values()
            if matches(node)
        )
        return list(islice(found, first, None if count is None else first + count))

    def rank_of(self, node: Node) -> int:
        """The rank that a node belongs to."""
        try:
            return self._ranks_of_nodes[node]
        except KeyError:
            raise OpscopeError(f"{node.name} is not a node of {self.path}") from None

    def inputs(self, node: Node) -> list[Source]:
        """Return where each input of a node came from last: an output of another node, or outside.

        >>> [source for source in run.inputs(node)]  # doctest: +SKIP
        """
        self._require("edges")
        self.rank_of(node)
        return list(node.sources)

    def consumers(self, node: Node) -> list[ConsumerSlot]:
        """The nodes that read an output of this one, in the order of their ids."""
        self._require("edges")
        self.rank_of(node)
        return self._consumers.get(node, [])

    def code(self, frame: Frame) -> str | None:
        """The line of a frame, from the copy that a run keeps."""
        return self.recording.code(frame)

    # ------------------------------------------------------------------ values

    def select_values(
        self,
        query: str = "",
        *,
        regex: bool = False,
        by: str = "name",
        ranks: Collection[int] | None = None,
        steps: Collection[int] | None = None,
        io: str | None = None,
        slots: Collection[int] | None = None,
    ) -> list[Value]:
        """The recorded values of the nodes that match, in the order they were made.

        >>> for value in run.select_values("fc2", steps=[3], io="output"):  # doctest: +SKIP
        ...     print(value.name, value.stats().max)
        """
        side = None if io is None else IO(io)
        found: list[Value] = []
        nodes = self.select_nodes(query, regex=regex, by=by, ranks=ranks)
        for number in self.chosen_ranks(ranks):
            here = {n.id for n in nodes if self._ranks_of_nodes[n] == number}
            found += self.recording.rank(number).values(here, steps)
        return [
            value
            for value in found
            if (side is None or value.io is side) and (slots is None or value.slot in slots)
        ]

    def value(self, address: str, step: int, rank: int | None = None) -> Value:
        """One value by its address, with its elements where a dump or a hit saved them.

        >>> run.value("conv1-Conv2d/convolution-op0:0", step=3).array()[0]  # doctest: +SKIP
        """
        place = parse_address(address)
        reader = self.recording.rank(self._one_rank(rank))
        node = find_node(reader.nodes.values(), place.node)
        slot, of_pass = place.slot or 0, place.pass_number or 0
        found = find_value(reader, node, place.io, slot, step, of_pass)
        if found is None:
            raise OpscopeError(f"{node.name} has no {place.io} {slot} in step {step}")
        return found

    def series(self, node: Node, io: str = "output", slot: int = 0) -> ValueSeries:
        """The rows of one value over all steps, and the extremes of those left out.

        >>> run.series(node).rows["max"]  # doctest: +SKIP
        """
        rows, between = self.recording.rank(self.rank_of(node)).history({node.id})
        return ValueSeries(_of_slot(rows, io, slot, "step"), _of_slot(between, io, slot, "first"))

    def scopes(self, rank: int | None = None) -> ScopeTree:
        """The scopes of a rank (the first one) as a tree."""
        number = self._one_rank(rank)
        nodes = self.recording.rank(number).nodes
        return self._once(f"scopes {number}", lambda: scope_tree(nodes))

    def scope_numbers(self, step: int | None = None, rank: int | None = None) -> Aggregates:
        """Return what the outputs of a step (the last one) say of each scope."""
        reader = self.recording.rank(self._one_rank(rank))
        if step is None:
            step = max(reader.recorded_steps, default=0)
        return self.scopes(rank).aggregate(reader.stats(steps={step}))

    def hits(self, ranks: Collection[int] | None = None) -> RecordedHits:
        """The hits that the run recorded itself."""
        return RecordedHits(
            hit for number in self.chosen_ranks(ranks) for hit in self.recording.rank(number).hits
        )

    def notes(self, ranks: Collection[int] | None = None) -> list[Mapping[str, Any]]:
        """Return what did no harm in a run: skipped batches and masked values, with origins."""
        if "hits" in self.recording.lacks:
            return []
        found = [self.recording.rank(number) for number in self.chosen_ranks(ranks)]
        return [note for rank in found for note in read_notes(Path(rank.path))]

    # ------------------------------------------------------------------ inside

    def chosen_ranks(self, ranks: Collection[int] | None) -> list[int]:
        """The ranks that are meant; an error names those there are."""
        chosen = self.ranks if ranks is None else sorted(set(ranks))
        for number in chosen:
            self.recording.rank(number)
        return chosen

    def _one_rank(self, rank: int | None) -> int:
        return next(iter(self.ranks), 0) if rank is None else rank

    def _require(self, what: str) -> None:
        """Raise the sentence for what such a recording does not have."""
        if what in self.recording.lacks:
            raise OpscopeError(self.recording.lacks[what])

    def _once(self, name: str, make: Callable[[], _T]) -> _T:
        """Return what is made once, until a refresh, whichever thread asks first."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            found: _T = self._made[name]
            return found

    @property
    def _ranks_of_nodes(self) -> dict[Node, int]:
        return self._once("ranks", self._find_ranks_of_nodes)

    def _find_ranks_of_nodes(self) -> dict[Node, int]:
        ranks = self.recording.ranks
        return {n: number for number in ranks for n in ranks[number].nodes.values()}

    @property
    def _consumers(self) -> dict[Node, list[ConsumerSlot]]:
        return self._once("consumers", self._find_consumers)

    def _find_consumers(self) -> dict[Node, list[ConsumerSlot]]:
        found: dict[Node, dict[ConsumerSlot, None]] = {}
        for node in self._ranks_of_nodes:
            for sources in self._latest_sources.get(node, [node.sources]):
                for slot, source in enumerate(sources):
                    if isinstance(source, Output):
                        consumer = ConsumerSlot(node, slot, source.slot)
                        found.setdefault(source.node, {})[consumer] = None
        return {node: list(consumers) for node, consumers in found.items()}

    @property
    def _latest_sources(self) -> dict[Node, list[list[Source]]]:
        """The sources of each node in its calls of the latest step."""
        return self._once("latest sources", self._find_latest_sources)

    def _find_latest_sources(self) -> dict[Node, list[list[Source]]]:
        found: dict[Node, list[list[Source]]] = {}
        for rank in self.recording.ranks.values():
            latest = [record.calls for record in rank.steps if record.complete][-1:]
            for calls in latest:
                for call, node in enumerate(calls.nodes):
                    sources, known = calls.sources_of(call), found.setdefault(node, [])
                    if all(sources is not other for other in known):
                        known.append(sources)
        return found

    def _matcher(self, query: str, regex: bool, by: str) -> Callable[[Node], bool]:
        if not query:
            return lambda node: True
        if regex:
            try:
                pattern = re.compile(query)
            except re.error as error:
                raise OpscopeError(f'"{query}" is no regular expression: {error}') from None
            return lambda node: any(pattern.search(text) for text in self._texts(node, by))
        if by == "line":
            return lambda node: at_line(node, query)
        if by in ("name", "code"):
            return lambda node: any(query in text for text in self._texts(node, by))
        return lambda node: any(fnmatchcase(text, query) for text in self._texts(node, by))

    def _texts(self, node: Node, by: str) -> Iterator[str]:
        """Return what a query is looked for in."""
        if by == "name":
            yield node.name
        elif by == "line":
            yield from (f"{frame.file}:{frame.line}" for frame in node.stack.frames if frame.user)
        elif by == "code":
            where = node.stack.where
            yield (self.code(where) or "") if where is not None else ""
        elif by == "op_type":
            yield from (node.op_type, node.op)
        elif by == "scope":
            yield node.scope
        else:
            yield from filter(None, (node.gradient_of, node.parameter))
            yield from (output.parameter for output in node.outputs if output.parameter)


def _of_slot(records: Records, io: str, slot: int, order: str) -> Records:
    side = INPUT if IO(io) is IO.INPUT else OUTPUT
    chosen = taken(records, (records["io"] == side) & (records["slot"] == slot))
    return taken(chosen, np.argsort(chosen[order], kind="stable"))

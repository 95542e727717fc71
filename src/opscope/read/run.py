"""A run directory, read: ranks, and for each its nodes, stacks, steps and statistics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from opscope.calls import Calls
from opscope.errors import OpscopeError
from opscope.events import Frame, LossRecord, Node, Stack, StepRecord
from opscope.read.calls import LinkBook, Variant
from opscope.read.checked import Fields, checked_tail, shown
from opscope.read.extra_stats import ExtraStats
from opscope.read.facts import Facts, read_facts
from opscope.read.graph import edges_line, node_line, stack_line, with_nodes
from opscope.read.hits import RecordedHit, read_hits
from opscope.read.recording import Pass
from opscope.read.row_store import Records, RowStore
from opscope.read.state import State, overall, rank_state
from opscope.read.step_lines import (
    LossLine,
    StoredStep,
    links_line,
    order_line,
    shape_line,
    step_line,
)
from opscope.read.uncollected import uncollected
from opscope.read.value import Value, value_of
from opscope.regular import read_regular
from opscope.rundir import layout
from opscope.rundir.jsonlines import LineTail, read_object
from opscope.stats.row import Row
from opscope.value_type import ValueType

_T = TypeVar("_T")
_L = TypeVar("_L")


def open_run(path: Path) -> Run:
    """The run in a directory; an error says what is wrong with one that cannot be read."""
    if not path.is_dir():
        raise OpscopeError(f"{path} is no run: {_what_it_is(path)}")
    info = read_object(path / layout.RUN_FILE)
    if info is None:
        raise OpscopeError(f"{path} is no run: it has no readable {layout.RUN_FILE}")
    if info.get("format") != layout.FORMAT_VERSION:
        raise OpscopeError(
            f"{path} has format {shown(info.get('format'))}; this opscope reads format "
            f"{layout.FORMAT_VERSION}. It was written by opscope {str(info.get('opscope'))[:40]}"
        )
    return Run(path, info)


class Run:
    """One run; what is read stays as it was when it was first asked for, until `refresh`."""

    kind = "run"
    lacks: Mapping[str, str] = {}

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self._sources: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._ranks: dict[int, Rank] | None = None

    @property
    def started(self) -> str:
        """The time at which it began, as ISO 8601."""
        return str(self.info.get("started", ""))

    @property
    def ranks(self) -> dict[int, Rank]:
        """The ranks there are, by number."""
        with self._lock:
            if self._ranks is None:
                self._ranks = self._with_new({})
            return self._ranks

    def refresh(self) -> None:
        """Read what has been written since, and only that."""
        for rank in self.ranks.values():
            rank.refresh()
        with self._lock:
            self._ranks = self._with_new(self._ranks or {})
            self._sources = {}

    def _with_new(self, known: dict[int, Rank]) -> dict[int, Rank]:
        return {
            number: known.get(number) or Rank(self.path, number, path)
            for number, path in layout.rank_directories(self.path).items()
        }

    def rank(self, number: int) -> Rank:
        """One rank; an error names those there are."""
        if number not in self.ranks:
            known = ", ".join(map(str, self.ranks)) or "none"
            raise OpscopeError(f"{self.path} has no rank {number}; it has: {known}")
        return self.ranks[number]

    @property
    def states(self) -> dict[int, State]:
        """The state or end of each rank, as it is now."""
        return {number: rank.state for number, rank in self.ranks.items()}

    @property
    def state(self) -> str:
        """The same of the whole run, in words: "stopped: NaN in step 6"."""
        return overall(self.states)

    def code(self, frame: Frame) -> str | None:
        """The line of a frame, from the copy of its source; None if there is none."""
        lines = self.source(frame.file)
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else None

    def source(self, file: str) -> list[str]:
        """The lines of a file as it is called in stacks, from its copy; none if there is none."""
        lines = self._sources.get(file)
        if lines is None:
            lines = _text(layout.copied_source(self.path, file))
            self._sources[file] = lines
        return lines


class Rank:
    """The recording of one process of a run.

    Everything is read when it is first asked for; `refresh` adds what was written since. Any thread
    may ask: what it got stays as it is.
    """

    def __init__(self, run: Path, number: int, path: Path) -> None:
        self.run = run
        self.number = number
        self.path = path
        self._rows = RowStore(path / layout.STATS)
        self.extra_stats = ExtraStats(path / layout.EXTRA_STATS)
        self._lock = threading.RLock()
        self._known: dict[str, Any] = {}
        self._tails: dict[str, LineTail] = {}

    @property
    def state(self) -> State:
        """The state of the process or how it ended, as it is now."""
        return rank_state(self.path)

    @property
    def end(self) -> dict[str, Any]:
        """The rank's own account of its end; nothing if it has not ended."""
        return read_object(self.path / layout.END_FILE) or {}

    @property
    def stacks(self) -> dict[int, Stack]:
        """Call stacks by id."""
        return self._read("stacks", self._more_stacks, {})

    @property
    def nodes(self) -> dict[int, Node]:
        """Nodes by id, with the edges they had last."""
        return self._read("nodes", self._more_nodes, {})

    @property
    def variants(self) -> Mapping[int, Sequence[Variant]]:
        """The variants of their sources that nodes have had, of those that had several."""
        return self._links.variants

    @property
    def types(self) -> dict[int, ValueType]:
        """Dtypes and shapes by the id in a row's `shape`."""
        return self._read("types", self._more_types, {})

    @property
    def orders(self) -> dict[int, list[int]]:
        """Distinct execution orders by id: the ids of nodes."""
        return self._read("orders", self._more_orders, {})

    @property
    def _links(self) -> LinkBook:
        return self._read("links", self._more_links, LinkBook())

    @property
    def steps(self) -> list[StepRecord]:
        """The steps that ended, in order."""
        return self._read("steps", self._more_steps, [])

    def passes(self, step: int) -> list[Pass]:
        """The passes of a step."""
        calls = self._calls_by_step.get(step)
        return [Pass(step, number) for number in range(1 if calls is None else calls.pass_count)]

    def pass_of(self, step: int, call: int) -> int | None:
        """The pass that a call belongs to; None where its step has only one."""
        calls = self._calls_by_step.get(step)
        return calls.pass_among_several(call) if calls is not None else None

    @property
    def _calls_by_step(self) -> dict[int, Calls]:
        """Of steps that ended."""
        return self._read("calls_by_step", self._more_calls_by_step, {})

    def calls(self, step: int, records: Records) -> Calls:
        """The calls of a step; of one that was not finished, those that these rows are of."""
        found = self._calls_by_step.get(step)
        if found is None or not len(found):
            return self._links.of_rows(step, records, self.nodes)
        return found

    def graph(self, number: int) -> list[Node]:
        """The nodes of one graph, by id."""
        return [node for node in self.nodes.values() if node.graph == number]

    @property
    def facts(self) -> Facts:
        """The facts that only the training itself knew."""
        return read_facts(self.path)

    @property
    def hits(self) -> list[RecordedHit]:
        """The hits of watchpoints while it ran."""
        return read_hits(self.path, self.nodes)

    def stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Records:
        """The rows, in the order they were written; of some nodes or steps only, if given."""
        return self._rows.stats(nodes, steps)

    @property
    def part_count(self) -> int:
        """The number of parts that `parts_of_stats` has."""
        return len(self._rows.parts)

    def parts_of_stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """The same in parts of some megabytes."""
        return self._rows.parts_of_stats(nodes, steps)

    @property
    def recorded_steps(self) -> list[int]:
        """The steps that have rows."""
        return self._rows.steps()

    @property
    def known_numbers(self) -> frozenset[str]:
        """The numbers that every row has: all of them."""
        return frozenset(Row._fields)

    def parts_of_between(self) -> Iterator[Records]:
        """Of steps that were left out of older history: their extremes, in parts."""
        return self._rows.parts_of_between()

    def between(self, nodes: Collection[int] | None = None) -> Records:
        """Of steps that were left out of older history: their extremes, by node."""
        return self._rows.between(nodes)

    def history(self, nodes: Collection[int]) -> tuple[Records, Records]:
        """The rows of some nodes and the extremes of what was left out, of the same moment."""
        return self._rows.history(nodes)

    def values(self, nodes: Collection[int], steps: Collection[int] | None = None) -> list[Value]:
        """The values of some nodes, in the order they were made."""
        extra = self.extra_stats.by_value(nodes, steps)
        return [value_of(self, record, extra=extra) for record in self.stats(nodes, steps)]

    def refresh(self) -> None:
        """Read what has been written since, and only that."""
        with self._lock:
            self._rows.refresh()  # first, so that the lines have all that the rows refer to
            self.extra_stats.refresh()
            for name in tuple(self._known):
                more: Callable[[Any], Any] = getattr(self, f"_more_{name}")
                self._known[name] = more(self._known[name])

    # ------------------------------------------------------------------ lines

    def _read(self, name: str, more: Callable[[_T], _T], nothing: _T) -> _T:
        if name not in self._known:
            with self._lock:
                if name not in self._known:
                    with uncollected():
                        self._known[name] = more(nothing)
        found: _T = self._known[name]
        return found

    def _lines(self, file: str, make: Callable[[Fields], _L]) -> Iterator[_L]:
        """The lines of a file that have not been read."""
        return checked_tail(self._tails.setdefault(file, LineTail(self.path / file)), make)

    def _more_stacks(self, known: dict[int, Stack]) -> dict[int, Stack]:
        return known | {stack.id: stack for stack in self._lines(layout.STACKS, stack_line)}

    def _more_nodes(self, known: dict[int, Node]) -> dict[int, Node]:
        edges = list(self._lines(layout.EDGES, edges_line))  # first: their nodes are there then
        stacks: dict[int, Stack] = {}
        lines = list(self._lines(layout.NODES, lambda line: node_line(line, stacks)))
        known_stacks = self._known["stacks"] = self._more_stacks(self.stacks)
        for line in lines:
            line.node.stack = known_stacks.get(line.node.stack.id) or line.node.stack
        nodes = with_nodes(known, lines, edges) if lines or edges else known
        self._links.settle(nodes)
        return nodes

    def _more_calls_by_step(self, known: dict[int, Calls]) -> dict[int, Calls]:
        return {record.step: record.calls for record in self.steps}

    def _more_links(self, known: LinkBook) -> LinkBook:
        return known.with_more(self._lines(layout.LINKS, links_line))

    def _more_types(self, known: dict[int, ValueType]) -> dict[int, ValueType]:
        return known | dict(self._lines(layout.SHAPES, shape_line))

    def _more_orders(self, known: dict[int, list[int]]) -> dict[int, list[int]]:
        return known | dict(self._lines(layout.ORDERS, order_line))

    def _more_steps(self, known: list[StepRecord]) -> list[StepRecord]:
        # All again where the file was thinned and replaced: steps only ever count upwards.
        last = known[-1].step if known else None
        lines = [
            line
            for line in self._lines(layout.STEPS, step_line)
            if last is None or line.step > last
        ]
        orders = self._known["orders"] = self._more_orders(self.orders)
        links = self._known["links"] = self._more_links(self._links)
        nodes = self._known["nodes"] = self._more_nodes(self.nodes)
        return known + [_step(line, links.of(line, orders, nodes), nodes) for line in lines]


def _step(line: StoredStep, calls: Calls, nodes: dict[int, Node]) -> StepRecord:
    return StepRecord(
        step=line.step,
        calls=calls,
        losses=[_loss(loss, calls, nodes) for loss in line.losses],
        seconds=line.seconds,
        skipped=line.skipped,
        complete=line.complete,
    )


def _loss(line: LossLine, calls: Calls, nodes: dict[int, Node]) -> LossRecord:
    node = None if line.node is None else nodes.get(line.node)
    call = line.call if line.call is not None and line.call < len(calls) else None
    return LossRecord(line.value, node, call)


def _what_it_is(path: Path) -> str:
    return "it is a file" if path.exists() else "there is no such directory"


def _text(path: Path) -> list[str]:
    try:
        return read_regular(path).decode("utf-8", "replace").split("\n")
    except OSError:
        return []

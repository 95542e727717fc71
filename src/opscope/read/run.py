"""A run directory, read: ranks, and for each its nodes, stacks, steps and statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.events import Frame, Node, Stack, StepRecord
from opscope.messages import say_once
from opscope.read.checked import Fields, checked_lines, shown
from opscope.read.graph import Sources, read_nodes, read_sources, read_stacks
from opscope.read.step_lines import order_line, shape_line, step_line
from opscope.read.value_type import ValueType
from opscope.regular import read_regular, why
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_object
from opscope.rundir.locks import is_held
from opscope.stats.record import OUTPUT, ROW_BYTES, ROW_DTYPE, UINT, VALID, joined

Records = NDArray[np.void]
"""Statistics rows as a structured array of `ROW_DTYPE`."""


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
    """One run; what is read stays as it was when it was first asked for."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self._sources: dict[str, list[str]] = {}

    @cached_property
    def ranks(self) -> dict[int, Rank]:
        """The ranks there are, by number."""
        return {
            number: Rank(self.path, number, path)
            for number, path in layout.rank_directories(self.path).items()
        }

    def rank(self, number: int) -> Rank:
        """One rank; an error names those there are."""
        if number not in self.ranks:
            known = ", ".join(map(str, self.ranks)) or "none"
            raise OpscopeError(f"{self.path} has no rank {number}; it has: {known}")
        return self.ranks[number]

    @property
    def state(self) -> str:
        """ "running", "finished", or "crashed" when a rank went without saying goodbye."""
        if any(rank.alive for rank in self.ranks.values()):
            return "running"
        ended = bool(self.ranks) and all(rank.end for rank in self.ranks.values())
        return "finished" if ended else "crashed"

    def code(self, frame: Frame) -> str | None:
        """The line of a frame, from the copy of its source; None if there is none."""
        if frame.file not in self._sources:
            self._sources[frame.file] = _text(layout.copied_source(self.path, frame.file))
        lines = self._sources[frame.file]
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else None


class Rank:
    """What one process of a run recorded."""

    def __init__(self, run: Path, number: int, path: Path) -> None:
        self.run = run
        self.number = number
        self.path = path

    @property
    def end(self) -> dict[str, Any] | None:
        """What the rank said when it finished, None if it has not."""
        return read_object(self.path / layout.END_FILE)

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return self.end is None and is_held(self.path / layout.LOCK)

    @cached_property
    def stacks(self) -> dict[int, Stack]:
        """Call stacks by id."""
        return read_stacks(self.path)

    @cached_property
    def nodes(self) -> dict[int, Node]:
        """Nodes by id, with the edges they had last."""
        return read_nodes(self.path, self.stacks)

    @cached_property
    def sources(self) -> dict[int, list[Sources]]:
        """Where the inputs of each node came from, and from which step on."""
        return read_sources(self.path, self.nodes)

    @cached_property
    def types(self) -> dict[int, ValueType]:
        """Dtypes and shapes by the id in a row's `shape`."""
        return dict(checked_lines(self.path / layout.SHAPES, shape_line))

    @cached_property
    def orders(self) -> dict[int, list[Node]]:
        """Distinct execution orders by id."""
        lines = checked_lines(self.path / layout.ORDERS, order_line)
        return {
            order: [self.nodes[node] for node in nodes if node in self.nodes]
            for order, nodes in lines
        }

    @cached_property
    def steps(self) -> list[StepRecord]:
        """The steps that ended, in order."""
        return list(checked_lines(self.path / layout.STEPS, self._step))

    def stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Records:
        """The rows, in the order they were written; of some nodes or steps only, if given."""
        return joined(list(self.parts_of_stats(nodes, steps)))

    @property
    def part_count(self) -> int:
        """How many parts `parts_of_stats` has."""
        return len(layout.segment_files(self.path / layout.STATS))

    def parts_of_stats(
        self, nodes: Collection[int] | None = None, steps: Collection[int] | None = None
    ) -> Iterator[Records]:
        """The same in parts of some megabytes."""
        for path in layout.segment_files(self.path / layout.STATS):
            rows = read_segment(path)
            keep = (rows["valid"] == VALID) & (rows["kind"] <= UINT) & (rows["io"] <= OUTPUT)
            if nodes is not None:
                keep &= np.isin(rows["node"], list(nodes))
            if steps is not None:
                keep &= np.isin(rows["step"], list(steps))
            yield rows[keep]

    def _step(self, line: Fields) -> StepRecord:
        return step_line(line, self.orders, self.nodes)


def read_segment(path: Path) -> Records:
    """The records of one segment, valid or not; none if it has just been dropped."""
    try:
        # A copy, not a map: the writer may cut the file short while we look at it.
        data = read_regular(path)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        say_once(f"{path} {why(error)}; left out")
        data = b""
    return np.frombuffer(data[: len(data) // ROW_BYTES * ROW_BYTES], ROW_DTYPE)


def _what_it_is(path: Path) -> str:
    return "it is a file" if path.exists() else "there is no such directory"


def _text(path: Path) -> list[str]:
    try:
        return read_regular(path).decode("utf-8", "replace").split("\n")
    except OSError:
        return []

"""The files of one rank of a run directory, while they are written."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

from opscope.atomic_files import Reserved, write_whole
from opscope.calls import Calls
from opscope.events import Node, Stack, StepRecord
from opscope.locks import FileLock
from opscope.messages import say_once
from opscope.rows import Rows
from opscope.rundir import layout
from opscope.rundir.ending import Ending, in_words
from opscope.rundir.jsonlines import JsonLines, encode
from opscope.rundir.orders import OrderBook
from opscope.rundir.records import (
    edges_record,
    further_records,
    node_record,
    now,
    stack_record,
    step_record,
)
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.sources import SourceCopies
from opscope.rundir.step_log import StepLog, limit_within


class RankFiles:
    """The files of one rank, open for appending."""

    def __init__(self, run: Path, rank: int, budget: int) -> None:
        self.path = layout.rank_directory(run, rank)
        self.path.mkdir()
        self.lock = _locked(self.path / layout.LOCK)
        write_whole(self.path / layout.RANK_FILE, encode(_facts(rank), indent=1))
        self._end_file = Reserved(self.path / layout.END_FILE)
        self._incomplete_file = Reserved(self.path / layout.INCOMPLETE_FILE)
        (self.path / layout.STATS).mkdir()
        self._segments = SegmentWriter(self.path / layout.STATS, budget)
        self._sources = SourceCopies(run)
        self._lines: list[JsonLines] = []
        self._nodes = self._open_lines(layout.NODES)
        self._stacks = self._open_lines(layout.STACKS)
        self._shapes = self._open_lines(layout.SHAPES)
        self._steps = StepLog(self.path / layout.STEPS, limit_within(budget))
        self._orders = OrderBook(self._open_lines(layout.ORDERS, limit=budget // 16))
        self._edges = self._open_lines(layout.EDGES, limit=budget // 16)
        self._links = self._open_lines(layout.LINKS, limit=budget // 16)
        self._linked: tuple[int, Calls] | None = None
        self._variants: dict[int, int] = {}
        """By node: how many variants of its sources are written, if it is more than one."""
        self._stack_ids: set[int] = set()
        self._step_count = 0
        self._last_step: int | None = None
        self._is_broken_off = False

    def add_node(self, node: Node) -> None:
        """Write a call site that was seen for the first time."""
        self._add_stack(node.stack)
        self._nodes.append_plain(node_record(node))

    @property
    def memory(self) -> SegmentWriter:
        """The writer of rows."""
        return self._segments

    def add_kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        """Write the number that rows will use for a dtype with a shape."""
        self._shapes.append({"id": number, "dtype": dtype, "shape": list(shape)})

    def add_rows(self, rows: Rows) -> None:
        """Write rows of a step; most are where they belong already."""
        if rows.memory is not self._segments:
            self._segments.append(rows.records)

    def add_step(self, record: StepRecord) -> None:
        """Write the line of a step that ended."""
        calls = record.calls
        for node in dict.fromkeys(calls.renewed):
            self._edges.append_plain(edges_record(node, self._variants.get(node.id, 1)))
            self._variants[node.id] = len(node.variants)
        self._add_links(record.step, calls)
        self._steps.append(step_record(record, self._orders.ids_of(calls)))
        self._step_count += record.complete
        self._last_step = record.step
        self._segments.settle(record.step)

    def _add_links(self, step: int, calls: Calls) -> None:
        if not calls.changes and not calls.crossings:
            return
        line: dict[str, Any] = {"step": step}
        if self._linked is not None and calls.is_wired_like(self._linked[1]):
            line["like"] = self._linked[0]
        else:
            self._linked = step, calls
            line |= {"changes": calls.changes.tolist(), "crossings": calls.crossings.tolist()}
            if calls.further:
                line["further"] = further_records(calls.further)
        self._links.append_plain(line)

    def break_off(self, why: str) -> None:
        """Say until when there is everything, and why not since; the first reason stays."""
        if not self._is_broken_off:
            self._is_broken_off = True
            self._incomplete_file.write(encode({"after": self._last_step, "why": why}))

    def close(self, ending: Ending) -> None:
        """Finish: no space stays reserved, and the end is on record."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.lock.release)
            stack.callback(self._incomplete_file.give_back)
            stack.callback(self._steps.close)
            for lines in self._lines:
                stack.callback(lines.close)
            stack.callback(lambda: self._end_file.write(encode(self._end(ending), indent=1)))
            try:
                self._segments.close()
            except Exception as error:
                self.break_off(in_words(error))
                raise

    def _end(self, ending: Ending) -> dict[str, Any]:
        return {
            "ended": now(),
            **ending.to_json(),
            "steps": self._step_count,
            "rows": self._segments.rows,
            "thinned_rows": self._segments.thinned,
            "dropped_rows": self._segments.dropped,
        }

    def _open_lines(self, name: str, limit: int = 0) -> JsonLines:
        lines = JsonLines(self.path / name, limit)
        self._lines.append(lines)
        return lines

    def _add_stack(self, stack: Stack) -> None:
        if stack.id in self._stack_ids:
            return
        self._stack_ids.add(stack.id)
        self._sources.add(stack)
        self._stacks.append_plain(stack_record(stack))


def _facts(rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "executable": sys.executable,
        "started": now(),
    }


def _locked(path: Path) -> FileLock:
    """The lock that a living rank holds: how others know that it is alive."""
    lock = FileLock(path)
    try:
        lock.take()
    except OSError as error:
        say_once(f"{path} cannot be locked ({error.strerror}); the run will look alive")
    return lock

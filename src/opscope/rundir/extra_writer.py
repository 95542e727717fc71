"""The sink that computes extra statistics of values as they pass by, and writes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.events import BaseSink, Call, Node, Outside, PassingValue, Want
from opscope.messages import say_once
from opscope.regular import why
from opscope.rundir import layout
from opscope.rundir.extra_files import ExtraFiles, RecordFormat
from opscope.stats.elements import elements_of
from opscope.stats.extra import load
from opscope.stats.record import INPUT, OUTPUT

_VALUES = Want.INPUT_VALUES | Want.OUTPUT_VALUES


def extra_sinks(run: Path, names: Sequence[str], budget: int) -> list[ExtraStatsWriter]:
    """A sink for extra statistics, if any are asked for."""
    return [ExtraStatsWriter(run, names, budget)] if names else []


class ExtraStatsWriter(BaseSink):
    """Writes statistics of the values that have rows: outputs, and inputs from outside the step.

    When the disk fails it says so once, and wants nothing from then on.
    """

    def __init__(self, run: Path, names: Sequence[str], budget: int) -> None:
        self._run = run
        self._budget = budget
        self._statistics = load(names)
        self._format = RecordFormat(len(names))
        self._early: list[bytes] = []
        """Records of the setup, as long as the rank is not known."""
        self._files: ExtraFiles | None = None
        self._is_on = True
        self._pid = os.getpid()

    def open(self, rank: int) -> None:
        place = layout.rank_directory(self._run, rank) / layout.EXTRA_STATS
        try:
            self._files = ExtraFiles(place, self._statistics, self._budget)
        except OSError as error:
            self._fail(error)
        early, self._early = self._early, []
        for record in early:
            self._write(record)

    def wants(self, node: Node) -> Want:
        return _VALUES if self._is_on else Want.NOTHING

    def wants_step(self, step: int) -> bool:
        return self._is_on

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        for slot, tensor, source in values:
            if isinstance(source, Outside) and source.kind != "state":
                self._add(call, INPUT, slot, tensor)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        for slot, tensor, _ in values:
            self._add(call, OUTPUT, slot, tensor)

    def close(self) -> None:
        self._is_on = False
        if self._files is not None:
            self._files.close()

    def _add(self, call: Call, side: int, slot: int, tensor: Any) -> None:
        elements = elements_of(tensor) if self._is_on and self._pid == os.getpid() else None
        if elements is not None:
            numbers = [statistic.of(elements) for statistic in self._statistics]
            place = call.step, call.node.id, call.index, slot, side
            self._write(self._format.record(*place, numbers))

    def _write(self, record: bytes) -> None:
        if self._files is None:
            self._early.append(record)
            return
        try:
            self._files.append(record)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._is_on = False
        say_once(
            f"cannot write extra statistics to {self._run}: {why(error)}; "
            "there are no more of them, training goes on"
        )

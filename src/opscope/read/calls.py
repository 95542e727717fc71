"""The calls of the steps of a rank, rebuilt from its lines."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Node, Phase, Source, Stack
from opscope.read.graph import Sources, read_sources
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_lines

Records = NDArray[np.void]
_UNKNOWN = Node(-1, -1, "", "", "", "", "", Phase.SETUP, Stack(-1, ()))
"""Stands for a call that nothing is known of."""


class StoredCalls:
    """What a rank keeps of its calls."""

    def __init__(self, path: Path, nodes: dict[int, Node]) -> None:
        self._path = path
        self._nodes = nodes

    def of(self, step: int, orders: Iterable[Sequence[int]] | None) -> Calls:
        """The calls of a step, from the orders in its line."""
        calls = Calls()
        for order, first, count in orders or ():
            for number in range(first, first + count):
                if number != (calls.passes[-1] if calls.passes else 0):
                    calls.passes += (len(calls.nodes), number)
                calls.nodes += self._orders.get(order, ())
        return self._complete(calls, step)

    def of_rows(self, step: int, records: Records) -> Calls:
        """The calls of a step that was not finished, as far as there are rows of them."""
        nodes = [_UNKNOWN] * (int(records["call"].max()) + 1 if len(records) else 0)
        for call, node in zip(records["call"].tolist(), records["node"].tolist(), strict=True):
            nodes[call] = self._nodes.get(node, _UNKNOWN)
        return self._complete(Calls(nodes), step)

    @cached_property
    def sources(self) -> dict[int, list[Sources]]:
        """Where the inputs of each node came from, and from which call of which step on."""
        return read_sources(self._path, self._nodes)

    def _complete(self, calls: Calls, step: int) -> Calls:
        calls.crossings = self._crossings.get(step, array("q"))
        calls.sources_after = self._sources_after(step)
        for number in dict.fromkeys(node.id for node in calls.nodes):
            history = self.sources.get(number, ())
            if len(history) < 2:
                continue
            for before, after in itertools.pairwise(history):
                if after.step == step:
                    node = self._nodes[number]
                    calls.changes.append((after.call, node, before.sources, after.sources))
        return calls

    def _sources_after(self, step: int) -> Callable[[Node], list[Source]]:
        def sources_after(node: Node) -> list[Source]:
            history = self.sources.get(node.id, ())
            past = [entry for entry in history if entry.step <= step] or history[:1]
            return past[-1].sources if past else node.sources

        return sources_after

    @cached_property
    def _orders(self) -> dict[int, list[Node]]:
        return {
            line["id"]: [self._nodes.get(node, _UNKNOWN) for node in line["nodes"]]
            for line in read_lines(self._path / layout.ORDERS)
        }

    @cached_property
    def _crossings(self) -> dict[int, array[int]]:
        lines: Iterable[dict[str, Any]] = read_lines(self._path / layout.CROSSINGS)
        return {line["step"]: array("q", line["crossings"]) for line in lines}

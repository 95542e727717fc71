"""The calls of the steps of a rank, rebuilt from its lines when they are looked at."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls, sources_in
from opscope.events import Node, Phase, Source, Stack
from opscope.read.checked import CALLS
from opscope.read.graph import StoredSource, source_of
from opscope.read.step_lines import LinksLine, StoredStep

Records = NDArray[np.void]
Nodes = Mapping[int, Node]
_UNKNOWN = Node(-1, -1, "", "", "", "", "", Phase.SETUP, Stack(-1, ()))
"""Stands for a call that nothing is known of."""


class Links(NamedTuple):
    """The changes and crossings (see `opscope.calls`) of one step."""

    changes: array[int]
    crossings: array[int]
    further: Mapping[int, list[StoredSource]]


_NO_LINKS = Links(array("q"), array("q"), {})


class Variant(NamedTuple):
    """By which variant of its sources a node's inputs come about, from a call of a step on."""

    step: int
    call: int
    variant: int


class LinkBook:
    """The known links of steps; more of them make another book."""

    def __init__(self) -> None:
        self._of_step: dict[int, Links] = {}
        self.variants: dict[int, list[Variant]] = {}
        """By node: which variants its sources have been, in order, if there were several."""
        self._shared: dict[Hashable, Calls] = {}
        self._shared_of: tuple[object, object] = None, None

    def with_more(self, lines: Iterable[LinksLine]) -> LinkBook:
        """The same with the links of more lines."""
        new = {line.step: line for line in lines}
        if not new:
            return self
        book = LinkBook()
        book._of_step = dict(self._of_step)
        book.variants = {node: list(history) for node, history in self.variants.items()}
        for step, line in new.items():
            book._add(step, line)
        return book

    def _add(self, step: int, line: LinksLine) -> None:
        if line.like is not None:
            links = self._of_step.get(line.like, _NO_LINKS)
        else:
            links = Links(array("q", line.changes), array("q", line.crossings), line.further)
        self._of_step[step] = links
        flat = links.changes
        for call, node, before, after in zip(*(flat[n::4] for n in range(4)), strict=True):
            history = self.variants.setdefault(node, [Variant(-1, 0, before)])
            history.append(Variant(step, call, after))

    def settle(self, nodes: Nodes) -> None:
        """Have each node's sources be those it had last."""
        for number, history in self.variants.items():
            if (node := nodes.get(number)) is not None:
                node.variant = history[-1].variant
                node.sources = self._sources(node, history[-1], nodes)

    def _sources(self, node: Node, last: Variant, nodes: Nodes) -> list[Source]:
        if last.variant >= 0:
            return sources_in(node, last.variant)
        further = self._of_step.get(last.step, _NO_LINKS).further.get(last.call, ())
        return [source_of(source, nodes) for source in further]

    def of(self, line: StoredStep, orders: Mapping[int, Sequence[int]], nodes: Nodes) -> Calls:
        """The calls of a step, from its line; steps that are alike in all have the same."""
        if self._shared_of[0] is not orders or self._shared_of[1] is not nodes:
            self._shared, self._shared_of = {}, (orders, nodes)
        stretches = tuple(map(tuple, line.orders or ()))
        links = id(self._of_step.get(line.step, _NO_LINKS))
        alike = stretches, line.operators, line.passes, links, self._changes_until(line.step)
        calls = self._shared.get(alike)
        if calls is None:
            calls = self._shared[alike] = self._made(line, stretches, orders, nodes)
        return calls

    def _changes_until(self, step: int) -> int:
        """Between steps of the same number no node has changed its variant."""
        return bisect_right(self._changing, step)

    @cached_property
    def _changing(self) -> list[int]:
        return sorted({each.step for history in self.variants.values() for each in history})

    def _made(
        self,
        line: StoredStep,
        stretches: Sequence[Sequence[int]],
        orders: Mapping[int, Sequence[int]],
        nodes: Nodes,
    ) -> Calls:
        count = sum(len(orders.get(order, ())) * times for order, _, times in stretches)
        if count != line.operators:
            stretches, count = (), 0  # they were not kept, or are damaged
        passes = line.passes if count else 1
        calls = Calls(
            load=lambda: _calls(stretches, orders, nodes),
            count=count,
            pass_count=passes,
            order=stretches or None,
        )
        return self._linked(calls, line.step, nodes)

    def of_rows(self, step: int, records: Records, nodes: Nodes) -> Calls:
        """The calls of a step that was not finished, as far as there are rows of them."""
        records = records[records["call"] < CALLS]
        found = [_UNKNOWN] * (int(records["call"].max()) + 1 if len(records) else 0)
        for call, node in zip(records["call"].tolist(), records["node"].tolist(), strict=True):
            found[call] = nodes.get(node, _UNKNOWN)
        return self._linked(Calls(found), step, nodes)

    def _linked(self, calls: Calls, step: int, nodes: Nodes) -> Calls:
        links = self._of_step.get(step, _NO_LINKS)
        calls.changes, calls.crossings = links.changes, links.crossings
        calls.further = {
            call: [source_of(source, nodes) for source in sources]
            for call, sources in links.further.items()
        }
        calls.variant_after = self._variant_after(step)
        return calls

    def _variant_after(self, step: int) -> Callable[[Node], int]:
        def variant_after(node: Node) -> int:
            history = self.variants.get(node.id)
            if history is None:
                return 0
            return history[bisect_right(history, step, key=lambda v: v.step) - 1].variant

        return variant_after


def _calls(
    stretches: Iterable[Sequence[int]], orders: Mapping[int, Sequence[int]], nodes: Nodes
) -> tuple[list[Node], list[int]]:
    """The nodes of a step by call, and its passes as `Calls` has them."""
    found: list[Node] = []
    passes: list[int] = []
    for order, first, count in stretches:
        for number in range(first, first + count):
            if number != (passes[-1] if passes else 0):
                passes += (len(found), number)
            found += (nodes.get(node, _UNKNOWN) for node in orders.get(order, ()))
    return found, passes

"""The calls of the steps of a rank, rebuilt from its lines when they are looked at."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls, sources_in
from opscope.events import Node, Phase, Stack
from opscope.read.checked import CALLS
from opscope.read.step_lines import LinksLine, StepLine

Records = NDArray[np.void]
Nodes = Mapping[int, Node]
_UNKNOWN = Node(-1, -1, "", "", "", "", "", Phase.SETUP, Stack(-1, ()))
"""Stands for a call that nothing is known of."""


class Links(NamedTuple):
    """The changes and crossings (see `opscope.calls`) of one step."""

    changes: array[int]
    crossings: array[int]


_NO_LINKS = Links(array("q"), array("q"))


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
            links = Links(array("q", line.changes), array("q", line.crossings))
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
                node.sources = sources_in(node, node.variant)

    def of(self, line: StepLine, orders: Mapping[int, Sequence[int]], nodes: Nodes) -> Calls:
        """The calls of a step, from its line."""
        stretches = line.orders or []
        count = sum(len(orders.get(order, ())) * times for order, _, times in stretches)
        if count != line.operators:
            stretches, count = [], 0  # they were not kept, or are damaged
        passes = line.passes if count else 1
        calls = Calls(
            load=lambda: _calls(stretches, orders, nodes),
            count=count,
            pass_count=passes,
            order=tuple(map(tuple, stretches)) or None,
        )
        return self._linked(calls, line.step)

    def of_rows(self, step: int, records: Records, nodes: Nodes) -> Calls:
        """The calls of a step that was not finished, as far as there are rows of them."""
        records = records[records["call"] < CALLS]
        found = [_UNKNOWN] * (int(records["call"].max()) + 1 if len(records) else 0)
        for call, node in zip(records["call"].tolist(), records["node"].tolist(), strict=True):
            found[call] = nodes.get(node, _UNKNOWN)
        return self._linked(Calls(found), step)

    def _linked(self, calls: Calls, step: int) -> Calls:
        calls.changes, calls.crossings = self._of_step.get(step, _NO_LINKS)
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

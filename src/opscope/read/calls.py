"""The calls of the steps of a rank, rebuilt from its lines."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls, sources_in
from opscope.events import Node, Phase, Stack
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_lines

Records = NDArray[np.void]
_UNKNOWN = Node(-1, -1, "", "", "", "", "", Phase.SETUP, Stack(-1, ()))
"""Stands for a call that nothing is known of."""


class Links(NamedTuple):
    """What `opscope.calls` calls changes and crossings, of one step."""

    changes: array[int]
    crossings: array[int]


_NO_LINKS = Links(array("q"), array("q"))


class Variant(NamedTuple):
    """By which variant of its sources a node's inputs come about, from a call of a step on."""

    step: int
    call: int
    variant: int


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
        return self._linked(calls, step)

    def of_rows(self, step: int, records: Records) -> Calls:
        """The calls of a step that was not finished, as far as there are rows of them."""
        nodes = [_UNKNOWN] * (int(records["call"].max()) + 1 if len(records) else 0)
        for call, node in zip(records["call"].tolist(), records["node"].tolist(), strict=True):
            nodes[call] = self._nodes.get(node, _UNKNOWN)
        return self._linked(Calls(nodes), step)

    @cached_property
    def variants(self) -> dict[int, list[Variant]]:
        """By node: which variants its sources have been, in order; the first always."""
        found: dict[int, list[Variant]] = {}
        for step, links in self._links.items():
            flat = links.changes
            for call, node, before, after in zip(*(flat[n::4] for n in range(4)), strict=True):
                of_node = found.setdefault(node, [Variant(-1, 0, before)])
                of_node.append(Variant(step, call, after))
        return found

    def settle(self) -> None:
        """Have each node's sources be those it had last."""
        for number, history in self.variants.items():
            if (node := self._nodes.get(number)) is not None:
                node.variant = history[-1].variant
                node.sources = sources_in(node, node.variant)

    def _linked(self, calls: Calls, step: int) -> Calls:
        calls.changes, calls.crossings = self._links.get(step, _NO_LINKS)

        def variant_after(node: Node) -> int:
            history = self.variants.get(node.id)
            if history is None:
                return 0
            return history[bisect_right(history, step, key=lambda v: v.step) - 1].variant

        calls.variant_after = variant_after
        return calls

    @cached_property
    def _orders(self) -> dict[int, list[Node]]:
        return {
            line["id"]: [self._nodes.get(node, _UNKNOWN) for node in line["nodes"]]
            for line in read_lines(self._path / layout.ORDERS)
        }

    @cached_property
    def _links(self) -> dict[int, Links]:
        found: dict[int, Links] = {}
        for line in read_lines(self._path / layout.LINKS):
            if "like" in line:
                found[line["step"]] = found.get(line["like"], _NO_LINKS)
            else:
                changes, crossings = array("q", line["changes"]), array("q", line["crossings"])
                found[line["step"]] = Links(changes, crossings)
        return found

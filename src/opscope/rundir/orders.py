"""Execution orders on disk: each distinct stretch of a pass once, and steps as lists of these."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from opscope.calls import Calls
from opscope.events import Node
from opscope.rundir.jsonlines import JsonLines

Stretches = list[list[int]]
"""In turn: the id of an order, the pass it ran in, and how many passes in a row it ran in."""


class OrderBook:
    """Gives ids to orders and writes each to a file when it is first seen."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._ids: dict[bytes, int] = {}
        self._last = Calls()
        self._last_ids: Stretches | None = []

    def ids_of(self, calls: Calls) -> Stretches | None:
        """The orders that a step is made of; None if the file has reached its limit."""
        if not calls.is_like(self._last):
            self._last, self._last_ids = calls, self._stretches(calls)
        return self._last_ids

    def _stretches(self, calls: Calls) -> Stretches | None:
        found: Stretches = []
        for number, nodes in calls.stretches():
            order = self._id(nodes)
            if order is None:
                return None
            last = found[-1] if found else None
            if last is not None and last[0] == order and last[1] + last[2] == number:
                last[2] += 1
            else:
                found.append([order, number, 1])
        return found

    def _id(self, nodes: Sequence[Node]) -> int | None:
        ids = array("I", [node.id for node in nodes])
        key = hashlib.blake2b(ids, digest_size=16).digest()
        number = self._ids.get(key)
        if number is None:
            number = len(self._ids)
            if not self._lines.append_plain({"id": number, "nodes": ids.tolist()}):
                return None
            self._ids[key] = number
        return number

"""The nodes of a program: their numbers, their names, and the call sites they are found by.

It knows no framework: a capture says what makes a call site, and what a new node is like.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Hashable
from types import CodeType
from typing import Any

from opscope.events import Node
from opscope.messages import say_once
from opscope.names import node_name
from opscope.native import shared

MOST_NODES = shared.MOST_NODES
"""A call site that a pass comes by more often than this has no more nodes: the last one recurs."""
_FIRST_SITES = 1024


class Site:
    """A call site: its nodes, one per call of it within a pass.

    There is one per node in most programs, so it is kept small: a garbage collection visits it.
    """

    __slots__ = ("at", "codes", "first", "more")

    def __init__(self, codes: tuple[CodeType, ...], first: Node, at: int) -> None:
        self.codes = codes
        """Kept alive, since their addresses are part of the site's key."""
        self.first = first
        self.more: list[Node] | None = None
        self.at = at
        """The place of its marks."""

    def add(self, node: Node) -> None:
        """Add the node of a call that is one more of this site than in any pass before."""
        if self.more is None:
            self.more = []
        self.more.append(node)


class SiteMarks:
    """Two numbers of every call site, which native code reads and writes too.

    The serial number of the pass that came by last, and how many calls it made there so far.
    """

    def __init__(self) -> None:
        self.numbers = array("q", bytes(8 * 2 * _FIRST_SITES))
        self.on_move: Callable[[], None] = lambda: None
        """Called when they are in other memory than before."""
        self._next = 0

    def add(self, serial: int) -> int:
        """Return the place for the marks of a new site, whose first call is under way."""
        if self._next == len(self.numbers):
            self.numbers = self.numbers * 2
            self.on_move()
        at, self._next = self._next, self._next + 2
        self.numbers[at], self.numbers[at + 1] = serial, 1
        return at


class NodeBook:
    """Every node there is, and where calls find theirs."""

    def __init__(self, on_new: Callable[[Node], None]) -> None:
        self.nodes: list[Node] = []
        self.sites: dict[tuple[object, ...], Site] = {}
        self.marks = SiteMarks()
        self._on_new = on_new
        self._counts: dict[tuple[int, str, str], itertools.count[int]] = {}
        self._lines: dict[Hashable, list[Node]] = {}

    def find(self, key: tuple[object, ...], serial: int) -> Node | None:
        """The node of this call of a site; None if no pass has made so many calls there.

        `serial` is the number of the pass.
        """
        site = self.sites.get(key)
        if site is None:
            return None
        marks, at = self.marks.numbers, site.at
        if marks[at] != serial:
            marks[at], marks[at + 1] = serial, 1
            return site.first
        position, more = marks[at + 1], site.more
        if position >= MOST_NODES:
            _say_recurring(site.first)
        place = min(position, MOST_NODES - 1)
        if more is None or place > len(more):
            return None
        marks[at + 1] = position + 1
        return more[place - 1]

    def place(
        self, key: tuple[object, ...], serial: int, node: Node, codes: tuple[CodeType, ...]
    ) -> None:
        """Enter the node of the call that `find` has just found none for."""
        site = self.sites.get(key)
        if site is None:
            self.sites[key] = Site(codes, node, self.marks.add(serial))
        else:
            site.add(node)
            self.marks.numbers[site.at + 1] += 1

    def add(self, graph: int, scope: str, op_type: str, line: Hashable, **facts: Any) -> Node:
        """A new node, unless `line`, the line of the program it is of, has enough of them.

        Code that is compiled anew each time it runs has new call sites each time. None: it is of
        no line.
        """
        siblings = self._lines.setdefault(line, []) if line is not None else []
        if len(siblings) >= MOST_NODES:
            _say_recurring(siblings[0])
            return siblings[-1]
        count = self._counts.setdefault((graph, scope, op_type), itertools.count())
        name = node_name(scope, op_type, next(count))
        node = Node(
            id=len(self.nodes), graph=graph, name=name, scope=scope, op_type=op_type, **facts
        )
        self.nodes.append(node)
        siblings.append(node)
        self._on_new(node)
        return node


def _say_recurring(node: Node) -> None:
    say_once(
        f"{node.name} and others are called more than {MOST_NODES} times in one pass: "
        "what comes after is recorded as further calls of the last one",
        "recurring",
    )

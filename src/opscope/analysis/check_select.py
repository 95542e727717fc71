"""Which recorded values a watchpoint looks at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from opscope.dump.format.names import safe
from opscope.dump.format.subject import PARAMETER
from opscope.events import Node
from opscope.stats.record import OUTPUT
from opscope.watch.selection import is_of_class, is_watched, parameter_of
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
Indices = NDArray[np.intp]
IsIgnored = Callable[[Node], bool]


class Selector:
    """The values of one watchpoint, by node and slot."""

    def __init__(
        self,
        watchpoint: Watchpoint,
        nodes: Mapping[int, Node],
        include: Collection[str],
        is_ignored: IsIgnored,
    ) -> None:
        self._watchpoint = watchpoint
        self._nodes = nodes
        self._include = include
        self._is_ignored = is_ignored
        self._weights: dict[str, bool] = {}
        self._slots: dict[tuple[int, int], bool] = {}
        self._chosen = np.zeros(max(nodes, default=-1) + 1, bool)
        for number, node in nodes.items():
            self._chosen[number] = self._takes(node)

    def _takes(self, node: Node) -> bool:
        watchpoint = self._watchpoint
        if not is_watched(node, self._include) or node.op_type == PARAMETER:
            return False
        if not is_of_class(watchpoint.condition.abbr, watchpoint.cls, node):
            return False
        if watchpoint.select.parameter:  # then it depends on the slot
            return not self._is_muted(node)
        return watchpoint.select.matches(node) and not self._is_muted(node)

    def _is_muted(self, node: Node) -> bool:
        return self._watchpoint.is_muted(node) or self._is_ignored(node)

    def node(self, node: Node) -> bool:
        """Whether the watchpoint looks at a node as a whole."""
        name = node.gradient_of or node.parameter
        matches = self._watchpoint.select.matches(node, name)
        return is_watched(node, self._include) and matches and not self._is_muted(node)

    def outputs(self, records: Records) -> Indices:
        """Rows of outputs that the watchpoint looks at."""
        chosen = np.flatnonzero(self._chosen[records["node"]] & (records["io"] == OUTPUT))
        if not self._watchpoint.select.parameter:
            return chosen
        pairs = zip(records["node"][chosen].tolist(), records["slot"][chosen].tolist(), strict=True)
        return chosen[[self._has_parameter(node, slot) for node, slot in pairs]]

    def _has_parameter(self, number: int, slot: int) -> bool:
        found = self._slots.get((number, slot))
        if found is None:
            node = self._nodes[number]
            name = parameter_of(node, None, slot, False)
            found = self._slots[number, slot] = self._watchpoint.select.matches(node, name)
        return found

    def weight(self, node: Node, name: str) -> bool:
        """Whether the watchpoint looks at a parameter, which this node uses first."""
        found = self._weights.get(name)
        if found is None:
            select = self._watchpoint.select
            names = bool(select.node) and fnmatchcase(name, select.node)
            fits = select.matches(node, name) or names or _is_safe_name(select.parameter, name)
            muted = self._is_muted(node) or name in self._watchpoint.mute
            found = self._weights[name] = fits and not muted
        return found


def _is_safe_name(pattern: str, name: str) -> bool:
    """Whether a pattern means a parameter of which only the name in a file is known."""
    return bool(pattern) and "." not in name and fnmatchcase(name, safe(pattern))

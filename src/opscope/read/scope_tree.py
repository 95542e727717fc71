"""The scopes of a rank as a tree, and what the rows of a step say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node
from opscope.names import parent_of
from opscope.read.row_store import Records
from opscope.read.uncollected import uncollected
from opscope.stats.record import INT, OUTPUT, UINT

ScopeNumbers = NDArray[np.float64]


@dataclass(frozen=True)
class Aggregates:
    """One number per scope, over its own nodes and those of the scopes in it."""

    rows: NDArray[np.int64]
    min: ScopeNumbers
    """NaN where there is none."""
    max: ScopeNumbers
    nan: NDArray[np.int64]
    inf: NDArray[np.int64]
    last: NDArray[np.int64]
    """The row that was written last, by its place; -1 for none."""


@dataclass(frozen=True)
class ScopeTree:
    """Scopes by number, parents before children; number 0 is the root and has no name."""

    names: list[str]
    parents: NDArray[np.int64]
    of_node: NDArray[np.int64]
    """The scope of each node, by the node's id; -1 where there is no such node."""
    nodes: NDArray[np.int64]
    """The number of nodes of each scope, with those of the scopes in it."""
    parameters: NDArray[np.int64]
    """The number of different parameters they read, update or compute the gradient of."""
    depths: NDArray[np.int64] = field(repr=False)
    """The depth of each scope below the root."""

    def children(self, scope: int) -> list[int]:
        """The scopes directly in one."""
        return [int(child) for child in np.flatnonzero(self.parents == scope) if child != scope]

    def find(self, text: str) -> list[int]:
        """The scopes whose name contains a text."""
        return [number for number, name in enumerate(self.names) if text in name]

    def aggregate(self, rows: Records) -> Aggregates:
        """Return what some rows, such as those of a step, say of each scope; outputs only."""
        places = np.flatnonzero((rows["io"] == OUTPUT) & (rows["node"] < len(self.of_node)))
        scope = self.of_node[rows["node"][places]]
        known = scope >= 0
        places, scope = places[known], scope[known]
        low, high = ends(rows, places)
        count = len(self.names)
        found = Aggregates(
            np.bincount(scope, minlength=count).astype(np.int64),
            np.full(count, np.nan),
            np.full(count, np.nan),
            sums_of(scope, rows["nan"][places], count),
            sums_of(scope, rows["posinf"][places] + rows["neginf"][places], count),
            np.full(count, -1, np.int64),
        )
        np.fmin.at(found.min, scope, low)
        np.fmax.at(found.max, scope, high)
        np.maximum.at(found.last, scope, places)
        self.pass_up(
            *((np.add, numbers) for numbers in (found.rows, found.nan, found.inf)),
            *((np.fmin, found.min), (np.fmax, found.max), (np.maximum, found.last)),
        )
        return found

    def pass_up(self, *numbers: tuple[np.ufunc, NDArray[Any]]) -> None:
        """Give the numbers of every scope to the one around it, joined by a function each."""
        for depth in range(int(self.depths.max()), 0, -1):
            here = np.flatnonzero(self.depths == depth)
            for join, values in numbers:
                join.at(values, self.parents[here], values[here])


def scope_tree(nodes: Mapping[int, Node]) -> ScopeTree:
    """The scopes of some nodes."""
    with uncollected():
        return _scope_tree(nodes)


def _scope_tree(nodes: Mapping[int, Node]) -> ScopeTree:
    numbers: dict[str, int] = {"": 0}
    parents, depths = [0], [0]

    def number_of(scope: str) -> int:
        number = numbers.get(scope)
        if number is None:
            parent = number_of(parent_of(scope))
            number = numbers[scope] = len(parents)
            parents.append(parent)
            depths.append(depths[parent] + 1)
        return number

    of_node = np.full(max(nodes, default=-1) + 1, -1, np.int64)
    for number, node in nodes.items():
        of_node[number] = number_of(node.scope)
    ancestors = np.array(parents, np.int64)
    levels = np.array(depths, np.int64)
    counts = np.bincount(of_node[of_node >= 0], minlength=len(parents)).astype(np.int64)
    for depth in range(int(levels.max()), 0, -1):
        here = np.flatnonzero(levels == depth)
        np.add.at(counts, ancestors[here], counts[here])
    parameters = _count_parameters(nodes.values(), numbers, parents)
    return ScopeTree(list(numbers), ancestors, of_node, counts, parameters, levels)


def _count_parameters(
    nodes: Iterable[Node], numbers: Mapping[str, int], parents: list[int]
) -> NDArray[np.int64]:
    found: list[set[str]] = [set() for _ in parents]
    for node in nodes:
        found[numbers[node.scope]] |= _parameters_of(node)
    for scope in range(len(parents) - 1, 0, -1):
        found[parents[scope]] |= found[scope]
    return np.array([len(names) for names in found], np.int64)


def _parameters_of(node: Node) -> set[str]:
    names = {getattr(source, "subject", "") for source in node.sources}
    return (names | {node.parameter, node.gradient_of}) - {""}


def ends(rows: Records, places: NDArray[np.intp]) -> tuple[ScopeNumbers, ScopeNumbers]:
    """The least and the largest element of each row as floats."""
    kind = rows["kind"][places]
    low, high = rows["min"][places].copy(), rows["max"][places].copy()
    for number, suffix in ((INT, "_int"), (UINT, "_uint")):
        which = kind == number
        if which.any():
            low[which] = rows[f"min{suffix}"][places[which]]
            high[which] = rows[f"max{suffix}"][places[which]]
    return low, high


def sums_of(places: NDArray[np.int64], counts: NDArray[Any], size: int) -> NDArray[np.int64]:
    """The sum of counts at each place."""
    return np.bincount(places, counts.astype(np.float64), size).astype(np.int64)

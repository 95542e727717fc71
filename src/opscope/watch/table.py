"""Which rows each watchpoint looks at, by node and by parameter, for whole steps at once."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node, Outside, Phase
from opscope.stats.record import INPUT, OUTPUT, words_of
from opscope.watch.selection import (
    is_of_class,
    is_watched,
    is_weight,
    parameter_of,
)
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
Indices = NDArray[np.intp]
Kinds = Sequence[tuple[str, tuple[int, ...]]]
_SLOTS = 16
"""Inputs beyond so many are not looked at for parameters: lists of them are no first use."""
IGNORE = "opscope: ignore"

_WHERE = (0xFFFFFFFF_0000FF00, 0xFFFFFFFF_00000000, 0x00000000_FFFFFFFF)
"""The bits of a record's first words that are alike in two steps of a loop: io and slot, node,
call."""


class _Places:
    """What was found about rows that lie in a certain way."""

    def __init__(self, heads: bytes | None = None) -> None:
        self.heads = heads
        """Which values the rows are of, in turn."""
        self.outputs: dict[int, Indices] = {}
        self.parameters: tuple[Indices, NDArray[np.int32]] | None = None


class Table:
    """What is selected, filled in as nodes and parameters turn up."""

    def __init__(self, node_of: Callable[[int], Node], include: Collection[str] = ()) -> None:
        self.parameters: list[str] = []
        """The parameters that rows were seen of, by number."""
        self.first_use: list[Node] = []
        """By parameter: the node that first read it."""
        self._numbers: dict[str, int] = {}
        self._node_of = node_of
        self._include = frozenset(include)
        self._known = 0
        self._of_input = np.full((256, _SLOTS), -1, np.int32)
        self._watched = np.zeros(256, bool)
        self._selected: dict[int, NDArray[np.bool_]] = {}
        self._weights: dict[int, list[bool]] = {}
        self._watchpoints: Sequence[Watchpoint] = ()
        self._matrices: set[str] = set()
        self._shapes_known = 0
        self._last = _Places()
        self._looked_at: Records | None = None
        """The rows that `_last` is about."""

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Look for these from now on."""
        by_node = [w for w in watchpoints if w.condition.abbr != "OO"]  # which follows values
        self._watchpoints = by_node
        self._selected = {w.id: np.zeros(len(self._watched), bool) for w in by_node}
        self._weights = {w.id: [] for w in watchpoints}
        self._last = _Places()
        known, self._known = self._known, 0
        self.learn(known)

    def learn(self, count: int) -> None:
        """There are so many nodes now."""
        if count > len(self._watched):
            self._grow(count)
        for number in range(self._known, count):
            self._add(self._node_of(number))
            self._last = _Places()
        self._known = max(self._known, count)

    def renew(self, nodes: Iterable[Node]) -> None:
        """The inputs of these nodes come from elsewhere than before."""
        for node in nodes:
            if node.id < self._known:
                self._of_input[node.id] = self._inputs(node)
                self._last = _Places()

    def outputs(self, watchpoint: Watchpoint, records: Records) -> Indices:
        """Rows of outputs that a watchpoint looks at."""
        places = self._places(records)
        found = places.outputs.get(watchpoint.id)
        if found is None:
            chosen = self._selected[watchpoint.id][records["node"]] & (records["io"] == OUTPUT)
            found = places.outputs[watchpoint.id] = np.flatnonzero(chosen)
        return found

    def weights(self, watchpoint: Watchpoint, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of some parameters a watchpoint looks at."""
        chosen = self._weights[watchpoint.id]
        for number in range(len(chosen), len(self.parameters)):
            node, name = self.first_use[number], self.parameters[number]
            fits = watchpoint.select.matches(node, name) or _names(watchpoint, name)
            chosen.append(fits and not watchpoint.is_muted(node) and not is_ignored(node))
        return np.array(chosen, bool)[numbers]

    def parameter_rows(self, records: Records) -> tuple[Indices, NDArray[np.int32]]:
        """The first row of every parameter among some rows, and the numbers of these."""
        places = self._places(records)
        if places.parameters is None:
            places.parameters = self._find_parameters(records)
        return places.parameters

    def _places(self, records: Records) -> _Places:
        """What is known of how these rows lie: most steps are like the one before."""
        if records is self._looked_at and self._last.heads is not None:
            return self._last
        self._looked_at = records
        words = words_of(records)
        heads = b"".join([(words[:, i] & bits).tobytes() for i, bits in enumerate(_WHERE)])
        if self._last.heads != heads:
            self._last = _Places(heads)
        return self._last

    def _find_parameters(self, records: Records) -> tuple[Indices, NDArray[np.int32]]:
        slots = records["slot"]
        rows = np.flatnonzero((records["io"] == INPUT) & (slots < _SLOTS))
        numbers = self._of_input[records["node"][rows], slots[rows]]
        named = numbers >= 0
        rows, numbers = rows[named], numbers[named]
        order = np.argsort(records["call"][rows], kind="stable")
        found, first = np.unique(numbers[order], return_index=True)
        return rows[order][first], found

    def note_shapes(self, numbers: NDArray[np.int32], records: Records, kinds: Kinds) -> None:
        """Which of some parameters have two dimensions or more."""
        if self._shapes_known == len(self.parameters):
            return
        fresh = numbers >= self._shapes_known
        shapes = records["shape"][fresh].tolist()
        for number, shape in zip(numbers[fresh].tolist(), shapes, strict=True):
            if len(kinds[shape][1]) > 1:
                self._matrices.add(self.parameters[number])
        self._shapes_known = max(self._shapes_known, len(self.parameters))

    def has_matrix(self, name: str) -> bool:
        """Whether a parameter has two dimensions or more."""
        return name in self._matrices

    def is_watched(self, node: Node) -> bool:
        """Whether a node is of a phase that is watched."""
        return is_watched(node, self._include)

    def _add(self, node: Node) -> None:
        self._of_input[node.id] = self._inputs(node)
        watched = self.is_watched(node)
        self._watched[node.id] = watched
        for watchpoint in self._watchpoints:
            self._selected[watchpoint.id][node.id] = watched and self.selects(watchpoint, node)

    def selects(self, watchpoint: Watchpoint, node: Node) -> bool:
        """Whether a watchpoint looks at the outputs of a node, in a phase that is watched."""
        return (
            is_of_class(watchpoint.condition.abbr, watchpoint.cls, node)
            and watchpoint.select.matches(node, parameter_of(node, None, 0, False))
            and not watchpoint.is_muted(node)
            and not is_ignored(node)
        )

    def _inputs(self, node: Node) -> list[int]:
        numbers = [-1] * _SLOTS
        if self.is_watched(node) and node.phase is not Phase.OPTIMIZER:
            for sources in reversed(node.variants):
                for slot, source in enumerate(sources[:_SLOTS]):
                    if is_weight(source):
                        assert isinstance(source, Outside)
                        numbers[slot] = self._number(source.name, node)
        return numbers

    def _number(self, name: str, node: Node) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.parameters)
            self.parameters.append(name)
            self.first_use.append(node)
        return number

    def number_of(self, name: str) -> int | None:
        """The number of a parameter, if a row of it was seen."""
        return self._numbers.get(name)

    def _grow(self, count: int) -> None:
        size = max(count, 2 * len(self._watched))
        more = size - len(self._watched)
        self._watched = np.append(self._watched, np.zeros(more, bool))
        fresh = np.full((more, _SLOTS), -1, np.int32)
        self._of_input = np.concatenate([self._of_input, fresh])
        for number, chosen in self._selected.items():
            self._selected[number] = np.append(chosen, np.zeros(more, bool))


def _names(watchpoint: Watchpoint, parameter: str) -> bool:
    """Whether `node` of a selection means a parameter by its own name."""
    return bool(watchpoint.select.node) and fnmatchcase(parameter, watchpoint.select.node)


def is_ignored(node: Node) -> bool:
    """Whether the line of a node carries the comment `# opscope: ignore`."""
    frame = node.stack.where
    return frame is not None and _is_ignored_line(frame.file, frame.line)


@lru_cache(maxsize=1 << 16)
def _is_ignored_line(file: str, line: int) -> bool:
    return IGNORE in linecache.getline(file, line).partition("#")[2]

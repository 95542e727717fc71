"""The rows each watchpoint looks at, by node and by parameter, for whole steps at once."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Node, Phase, Source
from opscope.judge.selection import is_of_class, is_watched, parameter_of, weight_of
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.glance import places_of
from opscope.stats.record import INPUT, OUTPUT

Records = NDArray[np.void]
Indices = NDArray[np.intp]
ParameterNumbers = NDArray[np.int32]
KindOf = Callable[[int], tuple[str, tuple[int, ...]] | None]
"""The number in a row's `shape` → dtype and shape, if they are known."""
_SLOTS = 16
"""So many input slots there is room for at first; nodes that read more parameters make more."""
IGNORE = "opscope: ignore"

_MIXED = -2
"""Stands for an input that is not always the same parameter: its call tells."""


class _OrderedRows:
    """The findings about rows that lie in a certain order."""

    def __init__(self, heads: bytes | None = None) -> None:
        self.heads = heads
        """The values that the rows are of, in turn."""
        self.outputs: dict[int, Indices] = {}
        self.parameters: tuple[Indices, ParameterNumbers] | None = None
        self.wired: Calls | None = None
        """The step that the parameters were found in; None if they are the same in every step."""


def is_ignored_line(node: Node) -> bool:
    """Return whether the line of a node carries the comment `# opscope: ignore`."""
    frame = node.stack.where
    return frame is not None and _is_ignored(frame.file, frame.line)


@lru_cache(maxsize=1 << 16)
def _is_ignored(file: str, line: int) -> bool:
    return says_ignore(linecache.getline(file, line))


def says_ignore(code: str) -> bool:
    """Return whether a line of code asks to be left alone."""
    return IGNORE in code.partition("#")[2]


class Table:
    """The selections of all watchpoints, filled in as nodes and parameters turn up."""

    def __init__(
        self,
        node_of: Callable[[int], Node | None],
        include: Collection[str] = (),
        is_ignored: Callable[[Node], bool] = is_ignored_line,
        names_parameter: Callable[[str, str], bool] = lambda pattern, name: False,
        is_parameter: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        """`names_parameter` says whether a pattern means a parameter in yet another way.

        `is_parameter` says which nodes stand for a parameter themselves, as in a dump.
        """
        self.parameters: list[str] = []
        """The parameters that were seen, by number."""
        self.first_use: list[Node] = []
        """By parameter: the node that first read it."""
        self.is_ignored = is_ignored
        """Tells of a node whether every watchpoint is to leave it alone."""
        self._numbers: dict[str, int] = {}
        self._node_of = node_of
        self._names_parameter = names_parameter
        self._include = frozenset(include)
        self._known = 0
        self._of_input = np.full((256, _SLOTS), -1, np.int32)
        self._of_output = np.full(256, -1, np.int32)
        """By node that stands for a parameter itself: which one that is."""
        self._is_parameter = is_parameter
        self._has_own = False
        self._watched = np.zeros(256, bool)
        self._selected: dict[int, NDArray[np.bool_]] = {}
        self._slots: dict[tuple[int, Node, int], bool] = {}
        self._weights: dict[int, list[bool]] = {}
        self._watchpoints: Sequence[Watchpoint] = ()
        self._matrices: set[str] = set()
        self._shapes_known = 0
        self._last = _OrderedRows()
        self._looked_at: Records | None = None
        """The rows that `_last` is about."""

    # ------------------------------------------------------------------ what there is

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Look for these from now on."""
        self._watchpoints = watchpoints
        self._selected = {w.id: np.zeros(len(self._watched), bool) for w in watchpoints}
        self._slots = {}
        self._weights = {w.id: [] for w in watchpoints}
        self._last = _OrderedRows()
        known, self._known = self._known, 0
        self.learn(known)

    def learn(self, count: int) -> Sequence[Node]:
        """Take in that there are so many nodes now; returns those that are new."""
        if count <= self._known:
            return ()
        if count > len(self._watched):
            self._grow(count)
        new = [node for n in range(self._known, count) if (node := self._node_of(n)) is not None]
        for node in new:
            self._add(node)
        self._last = _OrderedRows()
        self._known = count
        return new

    def renew(self, nodes: Iterable[Node]) -> None:
        """Take in that the inputs of these nodes come from elsewhere than before."""
        for node in nodes:
            if node.id < self._known:
                self._note_inputs(node)
            if self._slots:  # its outputs may have to do with a parameter now
                self._slots = {k: found for k, found in self._slots.items() if k[1] is not node}
                self._last = _OrderedRows()

    def is_watched(self, node: Node) -> bool:
        """Return whether a node is of a phase that is watched."""
        return is_watched(node, self._include)

    def _add(self, node: Node) -> None:
        watched = self.is_watched(node)
        self._watched[node.id] = watched
        self._note_inputs(node)
        if watched and self._is_parameter(node):
            self._has_own = True
            self._of_output[node.id] = self._number(node.name, node)
        for watchpoint in self._watchpoints:
            selects = watched and self._selects_some(watchpoint, node)
            self._selected[watchpoint.id][node.id] = selects

    def _note_inputs(self, node: Node) -> None:
        """Note which inputs of a node are which parameters."""
        if not self._watched[node.id] or node.phase is Phase.OPTIMIZER:
            return
        slots = max(map(len, node.variants), default=0)
        found = [self._of_slot(node, slot) for slot in range(slots)]
        while found and found[-1] == -1:
            found.pop()
        if len(found) > self._of_input.shape[1]:
            self._widen(len(found))
        row = self._of_input[node.id]
        if row[: len(found)].tolist() != found:
            row[: len(found)] = found
            self._last = _OrderedRows()

    def _of_slot(self, node: Node, slot: int) -> int:
        names = {_weight_at(sources, slot) for sources in node.variants}
        if names == {""}:
            return -1
        first = _weight_at(node.variants[0], slot)
        number = self._number(first, node) if first else -1
        return number if len(names) == 1 else _MIXED

    def _number(self, name: str, node: Node) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.parameters)
            self.parameters.append(name)
            self.first_use.append(node)
        return number

    def number_of(self, name: str) -> int | None:
        """Return the number of a parameter, if it was seen."""
        return self._numbers.get(name)

    def _grow(self, count: int) -> None:
        size = max(count, 2 * len(self._watched))
        more = size - len(self._watched)
        self._watched = np.append(self._watched, np.zeros(more, bool))
        fresh = np.full((more, self._of_input.shape[1]), -1, np.int32)
        self._of_input = np.concatenate([self._of_input, fresh])
        self._of_output = np.append(self._of_output, np.full(more, -1, np.int32))
        for number, chosen in self._selected.items():
            self._selected[number] = np.append(chosen, np.zeros(more, bool))

    def _widen(self, slots: int) -> None:
        nodes, width = self._of_input.shape
        fresh = np.full((nodes, max(slots, 2 * width) - width), -1, np.int32)
        self._of_input = np.concatenate([self._of_input, fresh], axis=1)

    # ------------------------------------------------------------------ outputs

    def selects(self, watchpoint: Watchpoint, node: Node, slot: int = 0) -> bool:
        """Return whether a watchpoint looks at an output of a node, in a phase that is watched."""
        key = watchpoint.id, node, slot
        found = self._slots.get(key)
        if found is None:
            name = parameter_of(node, None, slot, False)
            fits = watchpoint.select.matches(node, name)
            found = self._slots[key] = fits and self._selects_some(watchpoint, node)
        return found

    def _selects_some(self, watchpoint: Watchpoint, node: Node) -> bool:
        """Tell whether a watchpoint may look at some output of a node."""
        return (
            is_of_class(watchpoint.condition, watchpoint.cls, node)
            and watchpoint.select.matches_node(node)
            and not watchpoint.is_muted(node)
            and not self.is_ignored(node)
        )

    def outputs(self, watchpoint: Watchpoint, records: Records) -> Indices:
        """Return the rows of outputs that a watchpoint looks at."""
        places = self._places(records)
        found = places.outputs.get(watchpoint.id)
        if found is None:
            chosen = self._selected[watchpoint.id][records["node"]] & (records["io"] == OUTPUT)
            found = np.flatnonzero(chosen)
            if watchpoint.select.parameter:
                found = self._of_parameter(watchpoint, records, found)
            places.outputs[watchpoint.id] = found
        return found

    def _of_parameter(self, watchpoint: Watchpoint, records: Records, found: Indices) -> Indices:
        pairs = zip(records["node"][found].tolist(), records["slot"][found].tolist(), strict=True)
        fits = [
            (node := self._node_of(number)) is not None and self.selects(watchpoint, node, slot)
            for number, slot in pairs
        ]
        chosen: Indices = found[np.array(fits, bool)]
        return chosen

    def see(self, records: Records, found: bytes | None = None) -> None:
        """Look at these rows from here on, of which somebody may have found their places."""
        self._looked_at = records
        heads = places_of(records) if found is None else found
        if self._last.heads != heads:
            self._last = _OrderedRows(heads)

    def _places(self, records: Records) -> _OrderedRows:
        """Return the findings about rows in this order: most steps are like the one before."""
        if records is not self._looked_at or self._last.heads is None:
            self.see(records)
        return self._last

    # ------------------------------------------------------------------ parameters

    def weights(self, watchpoint: Watchpoint, numbers: ParameterNumbers) -> NDArray[np.bool_]:
        """Return which of some parameters a watchpoint looks at."""
        chosen = self._weights[watchpoint.id]
        for number in range(len(chosen), len(self.parameters)):
            node, name = self.first_use[number], self.parameters[number]
            muted = watchpoint.is_muted(node) or name in watchpoint.mute
            chosen.append(self._names(watchpoint, node, name) and not muted)
            chosen[-1] = chosen[-1] and not self.is_ignored(node)
        return np.array(chosen, bool)[numbers]

    def _names(self, watchpoint: Watchpoint, node: Node, name: str) -> bool:
        select = watchpoint.select
        by_name = bool(select.node) and fnmatchcase(name, select.node)
        other = bool(select.parameter) and self._names_parameter(select.parameter, name)
        return select.matches(node, name) or by_name or other

    def parameter_rows(self, records: Records, calls: Calls) -> tuple[Indices, ParameterNumbers]:
        """Return the first row of every parameter among some rows of a step, and their numbers."""
        places = self._places(records)
        known = places.parameters
        if known is not None and (places.wired is None or calls.is_wired_like(places.wired)):
            return known
        rows, numbers = self._inputs_that_are_parameters(records)
        mixed = numbers == _MIXED
        if mixed.any():
            numbers[mixed] = [self._by_call(records[row], calls) for row in rows[mixed].tolist()]
        if self._has_own:
            own, own_numbers = self.own_parameters(records)
            rows, numbers = np.concatenate([rows, own]), np.concatenate([numbers, own_numbers])
        places.parameters = _first_of_each(records, rows, numbers)
        places.wired = calls if mixed.any() else None
        return places.parameters

    def own_parameters(self, records: Records) -> tuple[Indices, ParameterNumbers]:
        """Return the rows of nodes that stand for a parameter themselves, and their numbers."""
        numbers = self._of_output[records["node"]]
        rows = np.flatnonzero(numbers >= 0)
        return rows, numbers[rows]

    def _inputs_that_are_parameters(self, records: Records) -> tuple[Indices, ParameterNumbers]:
        slots = records["slot"]
        rows = np.flatnonzero((records["io"] == INPUT) & (slots < self._of_input.shape[1]))
        numbers = self._of_input[records["node"][rows], slots[rows]]
        named = numbers != -1
        return rows[named], numbers[named]

    def _by_call(self, record: np.void, calls: Calls) -> int:
        """Return the number of the parameter an input is in this call."""
        call, slot = int(record["call"]), int(record["slot"])
        if call >= len(calls):
            return -1
        name = _weight_at(calls.sources_of(call), slot)
        return self._number(name, calls.nodes[call]) if name else -1

    def note_shapes(self, numbers: ParameterNumbers, records: Records, kind_of: KindOf) -> None:
        """Note which of some parameters have two dimensions or more."""
        if self._shapes_known == len(self.parameters):
            return
        fresh = numbers >= self._shapes_known
        shapes = records["shape"][fresh].tolist()
        for number, shape in zip(numbers[fresh].tolist(), shapes, strict=True):
            kind = kind_of(shape)
            if kind is not None and len(kind[1]) > 1:
                self._matrices.add(self.parameters[number])
        self._shapes_known = max(self._shapes_known, len(self.parameters))

    def has_matrix(self, name: str) -> bool:
        """Return whether a parameter has two dimensions or more."""
        return name in self._matrices


def _first_of_each(
    records: Records, rows: Indices, numbers: ParameterNumbers
) -> tuple[Indices, ParameterNumbers]:
    known = numbers >= 0
    rows, numbers = rows[known], numbers[known]
    order = np.argsort(records["call"][rows], kind="stable")
    found, first = np.unique(numbers[order], return_index=True)
    return rows[order][first], found


def _weight_at(sources: Sequence[Source], slot: int) -> str:
    return weight_of(sources[slot]) if slot < len(sources) else ""

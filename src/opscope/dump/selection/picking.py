"""Picks the rows of a step that go into the dump: all at once, without an object for each."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.dump.format.subject import Label, LabelBook
from opscope.dump.format.table_rows import OPAQUE, Column, Integers, Records, TableRows
from opscope.dump.layout import DumpFolder
from opscope.dump.selection.useless import has_useless, useless_slots
from opscope.events import IO, Node, Outside, Phase, Source
from opscope.names import PARAMETER
from opscope.rows import Rows
from opscope.stats.record import INPUT, OUTPUT, ROW_BYTES, ROW_DTYPE, VALID

ValueSpot = tuple[int, IO, int]
"""The place of a value in a step: call, side and slot."""

_sources_of = attrgetter("sources")
_SIDES = {IO.INPUT: INPUT, IO.OUTPUT: OUTPUT}
_Heads = NDArray[np.uint32]
_HEAD_WORDS = [0, 1, 3]
"""Of a record: valid, side and kind; slot; node."""


class RowPicker:
    """Picks the rows of known nodes, on these sides; with `parameters` adds those of parameters.

    The row of a parameter or buffer is that of the first input which is it, and comes before the
    rows of that call.
    """

    def __init__(self, book: LabelBook, sides: Collection[IO], parameters: bool) -> None:
        self._book = book
        self._sides = [_SIDES[side] for side in sides]
        self._labels = Column(-1)
        self._graphs = Column(0)
        self._parameters = _ParameterInputs(book) if parameters else None
        self._moments = _Moments()
        self._useless: set[int] = set()
        self._last: _Choice | None = None

    def add(self, node: Node, label: Label, leaves_out: bool) -> None:
        """Take rows of this node from here on; `leaves_out` are outputs that nobody needs."""
        if leaves_out and has_useless(node.op):
            self._useless.add(node.id)
        self._labels[node.id] = label.id
        self._graphs[node.id] = node.graph
        self._last = None

    def drop(self, node: Node) -> None:
        """Take no rows of this node from here on."""
        self._labels[node.id] = -1
        self._last = None

    def pick(
        self, rows: Rows, iteration: int, elsewhere: Collection[ValueSpot]
    ) -> Iterator[TableRows]:
        """The wanted rows, by graph, but for those `elsewhere`."""
        records = rows.records
        choice = self._choice(rows, elsewhere)
        if not len(choice.order):
            return
        picked: Records = records.view(OPAQUE)[choice.order].view(ROW_DTYPE)
        moments = self._moments.of(rows.flat_moments, picked["call"])
        picked["node"] = choice.labels
        if choice.uses is not None:
            own, names = choice.uses
            picked["node"][own], picked["io"][own] = names, OUTPUT
            picked["slot"][own] = picked["call"][own] = moments[own, 0] = 0
        for graph, here in choice.graphs:
            place = DumpFolder(graph, iteration)
            yield TableRows(place, picked[here], moments[here], self._book.by_number, rows.kinds)

    def _choice(self, rows: Rows, elsewhere: Collection[ValueSpot]) -> _Choice:
        """Choose what to take of these rows; steps are mostly like the last."""
        parameters, last = self._parameters, self._last
        is_whole = parameters is None or parameters.begins_step(rows)
        heads = _heads(rows.records)
        if last is not None and is_whole and not elsewhere and np.array_equal(last.heads, heads):
            if parameters is None:
                return last
            if parameters.looks_as_before(rows):
                parameters.use_as_before(rows)
                return last
        choice = self._choose(rows, heads, elsewhere)
        self._last = choice if is_whole and not elsewhere else None
        return choice

    def _choose(self, rows: Rows, heads: _Heads, elsewhere: Collection[ValueSpot]) -> _Choice:
        records = rows.records
        nodes = records["node"].astype(np.intp)
        labels = self._labels.of(nodes)
        known = (labels >= 0) & (records["valid"] == VALID)
        if self._useless:
            known &= ~self._is_useless(rows)
        if elsewhere:
            known &= ~np.isin(_spots(records), [_spot(*each) for each in elsewhere])
        order = self._order(records, known)
        uses = self._parameters.first_uses(rows, nodes, known) if self._parameters else None
        own = None
        if uses:
            places = np.searchsorted(order, uses.before)
            order = np.insert(order, places, uses.records)
            own = places + np.arange(len(places)), uses.labels
        graphs = list(_by_number(self._graphs.of(nodes[order]))) if len(order) else []
        return _Choice(heads, order, labels[order], own, graphs)

    def _is_useless(self, rows: Rows) -> NDArray[np.bool_]:
        records = rows.records
        is_useless: NDArray[np.bool_] = np.isin(records["node"], list(self._useless))
        is_useless &= records["io"] == OUTPUT
        for index in np.flatnonzero(is_useless).tolist():
            node = rows.nodes[int(records["node"][index])]
            slots = useless_slots(node.op, len(node.outputs))
            is_useless[index] = int(records["slot"][index]) in slots
        return is_useless

    def _order(self, records: Records, known: NDArray[np.bool_]) -> Integers:
        if len(self._sides) < len(_SIDES):
            known = known & np.isin(records["io"], self._sides)
        return np.flatnonzero(known)


class _Choice(NamedTuple):
    """The part that is taken of rows with these heads."""

    heads: _Heads
    order: Integers
    """The records, in the order of their rows; a parameter's stands twice."""
    labels: Integers
    """Whose each is."""
    uses: tuple[Integers, Integers] | None
    """The places of those that are rows of parameters of their own, and whose they are."""
    graphs: list[tuple[int, slice | NDArray[np.bool_]]]


class _Uses(NamedTuple):
    """First uses of parameters in a step: in which records, where their own rows go, whose."""

    records: Integers
    before: Integers
    labels: Integers


class _ParameterInputs:
    """Knows which inputs of which nodes are parameters or buffers.

    Sources are looked at when the rows arrive. A call site that by then, on a GPU a step or two
    later, has been given another parameter counts as a user of that one.
    """

    def __init__(self, book: LabelBook) -> None:
        self._book = book
        self._sources: list[list[Source] | None] = []
        """Node → its sources, as they were when they were looked at."""
        self._sizes = Column(0)
        """Node → how many input slots to look at."""
        self._starts = Column(0)
        """Node → where its slots begin in `_labels`."""
        self._labels = Column(-1)
        self._end = 0
        self._room: dict[int, int] = {}
        self._used: set[str] = set()
        self._step: int | None = None
        self._ids: list[int] = []
        """The nodes that were looked at last."""
        self._wiring: int | None = None
        """The state of the wiring when these were found to have the sources that they had."""
        self._used_last: frozenset[str] = frozenset()
        """The parameters used by rows up to those looked at last, in their step."""

    def begins_step(self, rows: Rows) -> bool:
        """Tell whether rows of their step have not been looked at before."""
        return len(rows.records) > 0 and self._step != rows.records["step"][0]

    def looks_as_before(self, rows: Rows) -> bool:
        """Tell whether the nodes that were looked at last have the sources that they had."""
        if rows.wiring is not None and rows.wiring == self._wiring:
            return True
        now = list(map(_sources_of, map(rows.nodes.__getitem__, self._ids)))
        if now != list(map(self._sources.__getitem__, self._ids)):
            return False
        self._wiring = rows.wiring
        return True

    def use_as_before(self, rows: Rows) -> None:
        """Take the parameters to be used as in the last step, since the rows are like its."""
        self._step = int(rows.records["step"][0])
        self._used = set(self._used_last)

    def first_uses(
        self, rows: Rows, nodes: NDArray[np.intp], known: NDArray[np.bool_]
    ) -> _Uses | None:
        """The known records that use a parameter for the first time in their step."""
        records = rows.records
        if not len(records):
            return None
        if self._step != records["step"][0]:
            self._step = int(records["step"][0])
            self._used.clear()
        calls = np.flatnonzero(np.concatenate(([True], nodes[1:] != nodes[:-1])))
        self._ids = nodes[calls[known[calls]]].tolist()
        self._wiring = None
        self._look_at(rows.nodes, self._ids)
        slots = records["slot"].astype(np.intp)
        known = known & (slots < self._sizes.of(nodes)) & (records["io"] == INPUT)
        inputs = np.flatnonzero(known)
        labels = self._labels.of(self._starts.of(nodes[inputs]) + slots[inputs])
        numbers, first = np.unique(labels, return_index=True)
        is_first = [self._is_first_use(number) for number in numbers.tolist()]
        self._used_last = frozenset(self._used)
        first = np.sort(first[is_first])
        if not len(first):
            return None
        before = calls[np.searchsorted(calls, inputs[first], "right") - 1]
        return _Uses(inputs[first], before, labels[first])

    def _is_first_use(self, number: int) -> bool:
        if number < 0 or (name := self._book.by_number[number].name) in self._used:
            return False
        self._used.add(name)
        return True

    def _look_at(self, nodes: Sequence[Node], ids: list[int]) -> None:
        known = self._sources
        if ids and (missing := max(ids) + 1 - len(known)) > 0:
            known.extend([None] * missing)
        now = list(map(_sources_of, map(nodes.__getitem__, ids)))
        if now == list(map(known.__getitem__, ids)):
            return
        for number, sources in zip(ids, now, strict=True):
            if sources != known[number]:
                known[number] = sources
                self._enter(nodes[number])

    def _enter(self, node: Node) -> None:
        labels = [self._label(node, source) for source in node.sources]
        self._sizes[node.id] = 0
        if not any(label >= 0 for label in labels):
            return
        if len(labels) > self._room.get(node.id, 0):
            self._starts[node.id], self._room[node.id] = self._end, len(labels)
            self._end += len(labels)
        start = int(self._starts.of(np.array([node.id]))[0])
        for slot, label in enumerate(labels):
            self._labels[start + slot] = label
        self._sizes[node.id] = len(labels)

    def _label(self, node: Node, source: Source) -> int:
        name = _parameter_of(source)
        return self._book.label(node.graph, PARAMETER, name).id if name else -1


def _parameter_of(source: Source) -> str:
    """The parameter or buffer that an input is, which its optimizer may have changed in this step.

    LBFGS calls the network again after each change: the first call has the parameter as it was.
    """
    if isinstance(source, Outside):
        return source.name if source.kind in ("parameter", "buffer") else ""
    return source.parameter if source.node.phase is Phase.OPTIMIZER else ""


class _Moments:
    """The stream and the time of calls, looked up for many at once."""

    def __init__(self) -> None:
        self._flat: array[int] | None = None
        self._by_call: Integers = np.zeros((0, 2), np.int64)

    def of(self, flat: array[int], calls: NDArray[np.integer]) -> Integers:
        """The moments of these calls; `flat` has index, stream and time of each of a step."""
        if flat is not self._flat:
            entries = np.array(flat, np.int64).reshape(-1, 3)
            self._by_call = np.zeros((int(entries[:, 0].max(initial=-1)) + 1, 2), np.int64)
            self._by_call[entries[:, 0]] = entries[:, 1:]
            self._flat = flat
        missing = int(calls.max()) + 1 - len(self._by_call)
        if missing > 0:
            self._by_call = np.concatenate((self._by_call, np.zeros((missing, 2), np.int64)))
        moments: Integers = self._by_call[calls]
        return moments


def _heads(records: Records) -> _Heads:
    """Take what of a record says whether and as what it is taken: side, slot and node."""
    heads: _Heads = records.view(np.uint32).reshape(-1, ROW_BYTES // 4)[:, _HEAD_WORDS]
    return heads


def _spots(records: Records) -> Integers:
    """Call, side and slot of each record as one number."""
    call, slot = records["call"].astype(np.int64), records["slot"].astype(np.int64)
    spots: Integers = (call << 32) + (slot << 1) + records["io"]
    return spots


def _spot(call: int, io: IO, slot: int) -> int:
    return (call << 32) + (slot << 1) + _SIDES[io]


def _by_number(numbers: Integers) -> Iterator[tuple[int, slice | NDArray[np.bool_]]]:
    """Each number, and where it is."""
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), slice(None)
        return
    for number in np.unique(numbers).tolist():
        yield number, numbers == number

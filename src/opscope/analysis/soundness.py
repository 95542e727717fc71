"""Follows NaN and Inf through the operators of a step: which are on purpose, where each began.

A value is *sound* if it is finite, or if its infinities were written on purpose (a mask filled with
-Inf) or are memory that nobody has written to yet. An operator that turns sound inputs into
something else is where a fault began: a *birth*. A NaN is never on purpose.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.events import SETUP_GRAPH, Node, Output, Outside, Phase, Source
from opscope.stats.record import INPUT, OUTPUT
from opscope.watch.selection import base_type

Records = NDArray[np.void]
Place = tuple[int, int]
"""A node's id and the slot of one of its outputs."""


class Status(enum.IntEnum):
    """What is the matter with a value that holds NaN or Inf."""

    ON_PURPOSE = 1
    """Its infinities were written by intention, or come of such."""
    UNWRITTEN = 2
    """It is memory that was not fully written yet."""
    UNUSED = 3
    """A further output that nothing has read so far."""
    FAULT = 4


class Bad(NamedTuple):
    """How many elements of a value are of which kind."""

    count: int  # type: ignore[assignment]  # more useful here than tuple.count
    nan: int
    posinf: int
    neginf: int
    zero: int

    @property
    def finite(self) -> int:
        """How many elements are neither NaN nor infinite."""
        return self.count - self.nan - self.posinf - self.neginf

    @property
    def text(self) -> str:
        """Such as "3 NaN, 1 -Inf of 24"."""
        parts = ((self.nan, "NaN"), (self.posinf, "+Inf"), (self.neginf, "-Inf"))
        return f"{', '.join(f'{n} {what}' for n, what in parts if n)} of {self.count}"


class Birth(NamedTuple):
    """Where NaN or Inf first turned up: made by a node, or read by it from outside."""

    node: Node
    call: int
    slot: int
    bad: Bad
    entered: Outside | None = None
    """What it came in with, if no operator of this step made it; `slot` is then an input."""
    of: Status | None = None
    """For a NaN: that it comes of infinities on purpose, or of memory nobody wrote to."""


_WRITERS = frozenset(
    (
        *("constant_pad_nd", "fill", "full", "full_like", "index_fill", "masked_fill"),
        *("new_full", "scalar_tensor", "scatter", "where", "masked_scatter"),
    )
)
"""Operators that write a number they are given."""
_IDENTITIES = frozenset(("index_reduce", "scatter_reduce", "segment_reduce", "amax", "amin"))
"""Reductions that leave their identity, an infinity, where there is nothing to reduce."""
_PIECEWISE = frozenset(
    (
        *("index_put", "_index_put_impl", "index_copy", "index_fill", "index_add", "masked_fill"),
        *("masked_scatter", "scatter", "scatter_add", "scatter_reduce", "put", "copy", "fill"),
        *("slice_scatter", "select_scatter", "_index_put_impl_", "resize"),
    )
)
"""Operators that may write to a part of a tensor, and leave the rest as it was."""
_VIEWS = frozenset(
    (
        *("alias", "as_strided", "detach", "expand", "permute", "select", "slice", "split"),
        *("squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "_unsafe_view"),
        *("chunk", "split_with_sizes", "diagonal", "narrow", "view_as_real", "_reshape_alias"),
    )
)
_SUMS = frozenset(("add", "sub", "rsub", "mul", "_to_copy", "baddbmm", "addmm"))
_HUGE = 1e30
"""Masks are also written with the lowest finite number; two of them added overflow."""
_HUGE_HALF = 6e4
COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "fsdp")
FROM_RANKS = Outside("rank", "another rank")


class Soundness:
    """Follows one rank's values, step after step."""

    def __init__(self) -> None:
        self.births: list[Birth] = []
        """Where faults of this step began, in order."""
        self.status: dict[Place, Status] = {}
        self.call_of: dict[Place, int] = {}
        self.bad: dict[Place, Bad] = {}
        self.reached_gradient: set[str] = set()
        """Parameters whose gradient has a fault."""
        self.reached_parameter: set[str] = set()
        """Parameters that an update has spoilt."""
        self._pending: list[Birth] = []
        self._late: list[tuple[Place, Birth]] = []
        self._parts: list[Records] = []
        self._infinite_at_first: dict[str, bool] = {}
        self._first_step: int | None = None

    def begin(self) -> None:
        """A new step: nothing is known of its values."""
        for of_step in (
            *(self.births, self.status, self.call_of, self.bad, self._pending, self._late),
            *(self._parts, self.reached_gradient, self.reached_parameter),
        ):
            of_step.clear()

    def follow(self, records: Records, nodes: Callable[[int], Node]) -> list[Birth]:
        """Go on with more rows of the step, in the order they ran; returns the new births."""
        before = len(self.births)
        self._parts.append(records)
        if self._first_step is None and len(records):
            self._first_step = int(records["step"][0])
        self._note_buffers(records, nodes)
        wrong = np.flatnonzero(records["nan"] | records["posinf"] | records["neginf"])
        if len(wrong):
            for node, call, inputs, outputs in _calls(records[wrong], nodes):
                if node.graph != SETUP_GRAPH:
                    self._see(node, call, inputs, outputs)
        return self.births[before:]

    def release(self, loss_nodes: Iterable[Node | None] = ()) -> list[Birth]:
        """What came from outside counts once it has reached a loss, a gradient or a parameter."""
        reached = bool(self.reached_gradient or self.reached_parameter) or any(
            node is not None and self._is_fault(node) for node in loss_nodes
        )
        if not reached or not self._pending:
            return []
        released, self._pending = self._pending, []
        self.births += released
        self.births.sort(key=lambda birth: birth.call)
        return released

    def row(self, node: Node, side: int, slot: int) -> np.void | None:
        """The row of a value of this step, if there is one; of an input, that of its source."""
        for part in reversed(self._parts):
            found = np.flatnonzero(
                (part["node"] == node.id) & (part["io"] == side) & (part["slot"] == slot)
            )
            if len(found):
                record: np.void = part[found[-1]]
                return record
        if side == INPUT and slot < len(node.sources):
            source = node.sources[slot]
            if isinstance(source, Output):
                return self.row(source.node, OUTPUT, source.slot)
        return None

    def records(self) -> Records:
        """All rows of the step so far."""
        return np.concatenate(self._parts) if len(self._parts) != 1 else self._parts[0]

    def _is_fault(self, node: Node) -> bool:
        return any(
            self.status.get((node.id, slot)) is Status.FAULT
            for slot in range(len(node.outputs) or 1)
        )

    # ------------------------------------------------------------------ one call

    def _see(self, node: Node, call: int, inputs: dict[int, Bad], outputs: dict[int, Bad]) -> None:
        kinds = self._inputs(node, call, inputs)
        for slot, bad in outputs.items():
            place = (node.id, slot)
            status = self._output(node, call, slot, bad, outputs, kinds)
            self.status[place], self.call_of[place], self.bad[place] = status, call, bad
            if status is Status.FAULT:
                self._note_reach(node, slot)

    def _inputs(self, node: Node, call: int, inputs: dict[int, Bad]) -> dict[Status, int]:
        """The kinds of unsound and odd inputs, and the slot of the first of each."""
        kinds: dict[Status, int] = {}
        for slot, source in enumerate(node.sources):
            status = self._source_status(node, call, slot, source, inputs.get(slot))
            if status is not None:
                kinds.setdefault(status, slot)
        return kinds

    def _source_status(
        self, node: Node, call: int, slot: int, source: Source, bad: Bad | None
    ) -> Status | None:
        if isinstance(source, Output):
            if source.uninitialised:
                return Status.UNWRITTEN
            return self.status.get((source.node.id, source.slot))
        if bad is None:
            return None
        if self._is_on_purpose(source, bad):
            return Status.ON_PURPOSE
        birth = Birth(node, call, slot, bad, source)
        if source.kind in ("parameter", "buffer", "state"):
            if all(other.entered != source for other in self.births):
                self.births.append(birth)
        elif all((b.node.id, b.slot) != (node.id, slot) for b in self._pending):
            self._pending.append(birth)
        return Status.FAULT

    def _is_on_purpose(self, source: Outside, bad: Bad) -> bool:
        """Whether infinities from outside look like a mask or a starting value."""
        if bad.nan:
            return False
        if bad.zero + bad.neginf == bad.count:  # 0 and -Inf only: a mask
            return True
        if source.kind == "buffer":
            return self._infinite_at_first.get(source.name, False)
        if source.kind != "outside":
            return False
        return not bad.posinf or bad.finite == 0

    def _output(
        self,
        node: Node,
        call: int,
        slot: int,
        bad: Bad,
        outputs: dict[int, Bad],
        kinds: dict[Status, int],
    ) -> Status:
        if Status.FAULT in kinds:
            return Status.FAULT
        if self._revive_unused(node, kinds):
            return Status.FAULT
        op = base_type(node)
        if Status.UNWRITTEN in kinds and (op in _PIECEWISE or op in _VIEWS):
            return Status.UNWRITTEN
        if node.op.split(".")[0] in COLLECTIVES:
            self.births.append(Birth(node, call, slot, bad, FROM_RANKS))
            return Status.FAULT
        if not bad.nan:
            if Status.ON_PURPOSE in kinds or Status.UNWRITTEN in kinds:
                return min(s for s in kinds if s in (Status.ON_PURPOSE, Status.UNWRITTEN))
            if self._writes_infinity(node, op, bad):
                return Status.ON_PURPOSE
        if slot > 0 and 0 not in outputs and not _outputs_are_alike(node):
            birth = Birth(node, call, slot, bad)
            self._late.append(((node.id, slot), birth))
            return Status.UNUSED
        of = next((s for s in (Status.ON_PURPOSE, Status.UNWRITTEN) if s in kinds), None)
        self.births.append(Birth(node, call, slot, bad, of=of))
        return Status.FAULT

    def _revive_unused(self, node: Node, kinds: dict[Status, int]) -> bool:
        """A further output that was bad and is read now, with a bad result: it began there."""
        if Status.UNUSED not in kinds:
            return False
        read = {(s.node.id, s.slot) for s in node.sources if isinstance(s, Output)}
        for place, birth in self._late:
            if place in read and self.status[place] is Status.UNUSED:
                self.births.append(birth)
                self.births.sort(key=lambda b: b.call)
                self.status[place] = Status.FAULT
        return True

    def _writes_infinity(self, node: Node, op: str, bad: Bad) -> bool:
        if op in _WRITERS and any("inf" in text.lower() for text in node.arguments.values()):
            return True
        if op in _IDENTITIES and not bad.nan:
            return True
        if op in _SUMS and not bad.posinf:
            return any(self._is_finite_mask(node, slot) for slot in range(len(node.sources)))
        return False

    def _is_finite_mask(self, node: Node, slot: int) -> bool:
        row = self.row(node, INPUT, slot)
        if row is None or row["kind"] != 0:
            return False
        return bool(row["min"] <= -_HUGE or (row["min"] <= -_HUGE_HALF and row["max"] <= 0))

    def _note_reach(self, node: Node, slot: int) -> None:
        if node.gradient_of:
            self.reached_gradient.add(node.gradient_of)
        elif node.phase is Phase.OPTIMIZER and slot < len(node.outputs):
            parameter = node.outputs[slot].parameter
            if parameter:
                self.reached_parameter.add(parameter)

    def _note_buffers(self, records: Records, nodes: Callable[[int], Node]) -> None:
        """Whether a buffer was infinite when it was first seen."""
        inputs = records[(records["io"] == INPUT) & ((records["posinf"] | records["neginf"]) > 0)]
        for record in inputs:
            node, slot = nodes(int(record["node"])), int(record["slot"])
            source = node.sources[slot] if slot < len(node.sources) else None
            if isinstance(source, Outside) and source.kind == "buffer":
                first = int(record["step"]) == self._first_step
                self._infinite_at_first.setdefault(source.name, first)


def _outputs_are_alike(node: Node) -> bool:
    """Whether no output is more of a result than another: lists of tensors, pieces of one."""
    return node.op_type.startswith(("_foreach", "_fused", "_amp")) or base_type(node) in _VIEWS


def _calls(
    records: Records, nodes: Callable[[int], Node]
) -> Iterator[tuple[Node, int, dict[int, Bad], dict[int, Bad]]]:
    """The calls that some rows belong to, in order, each with its bad inputs and outputs."""
    order = np.argsort(records["call"], kind="stable")
    current: tuple[int, int] | None = None
    inputs: dict[int, Bad] = {}
    outputs: dict[int, Bad] = {}
    for record in records[order]:
        key = int(record["node"]), int(record["call"])
        if key != current:
            if current is not None:
                yield nodes(current[0]), current[1], inputs, outputs
            current, inputs, outputs = key, {}, {}
        side = inputs if record["io"] == INPUT else outputs
        side[int(record["slot"])] = bad_of(record)
    if current is not None:
        yield nodes(current[0]), current[1], inputs, outputs


def bad_of(record: np.void) -> Bad:
    """The counts of one row."""
    return Bad(*(int(record[name]) for name in ("count", "nan", "posinf", "neginf", "zero")))


def ancestors(node: Node, status: dict[Place, Status]) -> Sequence[Place]:
    """The bad values that a node's outputs come from, itself included."""
    seen: dict[Place, None] = {}
    todo: list[Place] = [(node.id, slot) for slot in range(len(node.outputs) or 1)]
    by_id: dict[int, Node] = {node.id: node}
    while todo:
        place = todo.pop()
        if place in seen or place not in status:
            continue
        seen[place] = None
        for source in by_id[place[0]].sources:
            if isinstance(source, Output):
                by_id[source.node.id] = source.node
                todo.append((source.node.id, source.slot))
    return list(seen)

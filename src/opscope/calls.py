"""The calls of a step: the node and the pass of each, and which calls its inputs came from.

Nodes recur: in every pass of a step, and where a place in the program is passed more often than
nodes are told apart. So what belongs together in a step is told by calls. A call is known by its
index, which counts the operators of the step.
"""

from __future__ import annotations

import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from opscope.events import Node, Output, Source
from opscope.native import shared

MOST_VARIANTS = shared.MOST_VARIANTS
"""So many ways in which the inputs of a node come about are told apart."""
MOST_FURTHER = shared.MOST_FURTHER
"""So many sources of calls that are of none of these ways are kept in a step."""


class Calls:
    """The calls of one step, complete up to the moment it is asked; capture adds to it."""

    def __init__(
        self,
        nodes: list[Node] | None = None,
        *,
        load: Callable[[], tuple[list[Node], list[int]]] | None = None,
        count: int = 0,
        pass_count: int = 1,
        order: object = None,
    ) -> None:
        """Nodes and passes may be loaded when they are first looked at; there are so many then.

        Calls of the same `order`, if one is given, have the same nodes and passes.
        """
        self._nodes: list[Node] = [] if nodes is None else nodes
        self._passes: list[int] = []
        self._load = load
        self._count = count
        self._pass_count = pass_count
        self._order = order
        self.changes = array("q")
        """A call, the id of its node, and by which variants of sources the node's inputs come about
        until this call and from it on, in turn."""
        self.crossings = array("q")
        """A call, the slot of an input and the call it comes from, in turn, where that is not the
        latest one of its node."""
        self.further: dict[int, list[Source]] = {}
        """By call: where its inputs come from, if its node has had more variants of sources than
        are kept, and this is none of them. There is a change to -1 at each such call."""
        self.further_size = 0
        """The number of sources that Python has put there."""
        self.taken: set[int] = set()
        """Calls whose outputs the script has looked at as numbers without an operator."""
        self.renewed: list[Node] = []
        """Nodes with new variants of sources, or with outputs that have to do with a parameter."""
        self.variant_after: Callable[[Node], int] = _latest
        """The variant of a node's sources when the step had ended."""
        self._index = _Index()
        self._orders: dict[int, list[Node]] = {}
        self._sorted = 0
        self._kind = object()
        """Shared with steps that are alike; there are no further calls in either."""
        self._wiring = object()
        """Shared with steps that hang together alike as well."""

    @property
    def nodes(self) -> list[Node]:
        """By the index of a call."""
        if self._load is not None:
            self._loaded()
        return self._nodes

    @property
    def passes(self) -> list[int]:
        """The index of a call and the pass that begins with it, in turn; before that it is 0."""
        if self._load is not None:
            self._loaded()
        return self._passes

    def _loaded(self) -> None:
        load = self._load
        if load is not None:
            self._nodes, self._passes = load()
            self._load = None

    def __len__(self) -> int:
        return len(self._nodes) if self._load is None else self._count

    def pass_of(self, call: int) -> int:
        """The pass of its step that a call belongs to."""
        passes = self.passes
        begun = bisect_right(range(0, len(passes), 2), call, key=passes.__getitem__)
        return passes[2 * begun - 1] if begun else 0

    def pass_among_several(self, call: int) -> int | None:
        """The pass that a call belongs to; None where the step has only one."""
        return self.pass_of(call) if self.pass_count > 1 else None

    @property
    def pass_count(self) -> int:
        """The number of passes in the step."""
        if self._load is not None:
            return self._pass_count
        return 1 + max(self.passes[1::2], default=0)

    @property
    def orders(self) -> Mapping[int, list[Node]]:
        """Graph → the nodes executed, in order, as often as they were."""
        if self._sorted != len(self.nodes):
            self._orders = {}
            for node in self.nodes:
                self._orders.setdefault(node.graph, []).append(node)
            self._sorted = len(self.nodes)
        return self._orders

    def share_orders(self, other: Calls) -> None:
        """Have the orders of another step, which this one is like; both have ended."""
        self._orders, self._sorted = dict(other.orders), len(self.nodes)
        self._kind = other._kind
        if self.is_wired_like(other):
            self._wiring = other._wiring

    def is_like(self, other: Calls) -> bool:
        """Tell whether the same nodes ran in the same order and passes."""
        same_order = self._order is not None and self._order == other._order
        if self._kind is other._kind or same_order:
            return True
        return self.nodes == other.nodes and self.passes == other.passes

    def stretches(self) -> Iterator[tuple[int, list[Node]]]:
        """The passes in turn, each with nodes that ran in it without a break."""
        starts = [0, *self.passes[::2], len(self.nodes)]
        numbers = [0, *self.passes[1::2]]
        for number, start, end in zip(numbers, starts, starts[1:], strict=False):
            if end > start:
                yield number, self.nodes[start:end]

    def begins(self) -> Iterator[tuple[int, int]]:
        """The first call of each stretch of a pass, and the pass."""
        yield 0, 0
        yield from zip(self.passes[::2], self.passes[1::2], strict=True)

    def sources_of(self, call: int) -> list[Source]:
        """Return where the inputs of a call came from."""
        node = self.nodes[call]
        changes = self._indexed().changes.get(node.id)
        if changes is None:
            return sources_in(node, self.variant_after(node))
        at = bisect_right(changes, call, key=_call_of)
        if at and changes[at - 1].after < 0:
            return self.further.get(call, [])
        return sources_in(node, changes[at - 1].after if at else changes[0].before)

    def variant_before(self, node: Node) -> int:
        """The variant of a node's sources when the step began."""
        changes = self._indexed().changes.get(node.id)
        return changes[0].before if changes is not None else self.variant_after(node)

    def variants_before(self) -> dict[int, int]:
        """By the id of each node whose sources changed in the step: their variant before."""
        if not self.changes:
            return {}
        first: dict[int, tuple[int, int]] = {}
        # Not by the index: making it takes longer, and of most steps nobody asks more.
        for call, node, before in zip(*(self.changes[n::4] for n in range(3)), strict=True):
            known = first.get(node)
            if known is None or (call, before) < known:
                first[node] = call, before
        return {node: before for node, (_, before) in first.items()}

    def is_wired_like(self, other: Calls) -> bool:
        """Tell whether the same calls were made, with the same calls as inputs."""
        if self._wiring is other._wiring:
            return True
        same = self.changes == other.changes and self.crossings == other.crossings
        return same and self.further == other.further and self.is_like(other)

    def producer(self, call: int, slot: int) -> int | None:
        """The call whose output an input is; None if it came from outside the step."""
        sources = self.sources_of(call)
        source = sources[slot] if slot < len(sources) else None
        if not isinstance(source, Output):
            return None
        index = self._indexed()
        crossing = index.crossings.get((call, slot), -1)
        if 0 <= crossing < call:
            return crossing
        of_node = index.calls.get(source.node.id, ())
        at = bisect_right(of_node, call - 1)
        return of_node[at - 1] if at else None

    def _indexed(self) -> _Index:
        self._index.extend(self)
        return self._index


class _After:
    """The variants of nodes' sources when a step had ended, whatever changes them later."""

    __slots__ = ("__weakref__", "_series", "changed")

    def __init__(self, series: StepSeries) -> None:
        self._series = series
        self.changed: dict[int, int] = {}
        """By node that a later step which has ended has changed: the variant until then."""

    def __call__(self, node: Node) -> int:
        known = self.changed.get(node.id)
        return self._series.calls.variant_before(node) if known is None else known


class StepSeries:
    """The calls of the step under way, one step after the other.

    A step that has ended is told of later changes for as long as somebody has its calls; it does
    not refer to the steps after it, which would keep them all.
    """

    def __init__(self) -> None:
        self.calls = Calls()
        self._ended: weakref.WeakSet[_After] = weakref.WeakSet()

    def begin_step(self) -> None:
        """Have other calls from here on."""
        before, self.calls = self.calls, Calls()
        changed = before.variants_before()
        if changed:
            for ended in self._ended:
                ended.changed = {**changed, **ended.changed}
        before.variant_after = after = _After(self)
        self._ended.add(after)


class _Change(NamedTuple):
    call: int
    before: int
    after: int


class _Index:
    """Look-up tables over calls, made when first asked for."""

    def __init__(self) -> None:
        self.calls: dict[int, list[int]] = {}
        self.changes: dict[int, list[_Change]] = {}
        self.crossings: dict[tuple[int, int], int] = {}
        self._seen = (0, 0, 0)

    def extend(self, calls: Calls) -> None:
        """Take in what has been added."""
        seen = self._seen
        self._seen = len(calls.nodes), len(calls.changes), len(calls.crossings)
        if seen == self._seen:
            return
        for call in range(seen[0], self._seen[0]):
            self.calls.setdefault(calls.nodes[call].id, []).append(call)
        self._add_changes(calls.changes[seen[1] :])
        new = calls.crossings[seen[2] :]
        for call, slot, producer in zip(new[::3], new[1::3], new[2::3], strict=True):
            self.crossings[call, slot] = producer

    def _add_changes(self, new: array[int]) -> None:
        for call, node, *variants in zip(new[::4], new[1::4], new[2::4], new[3::4], strict=True):
            self.changes.setdefault(node, []).append(_Change(call, *variants))
        for node in set(new[1::4]):
            self.changes[node].sort()  # native code tells of its calls later


def _call_of(change: _Change) -> int:
    return change.call


def sources_in(node: Node, variant: int) -> list[Source]:
    """A variant of a node's sources; those of more than are kept are not known."""
    return node.variants[variant] if 0 <= variant < len(node.variants) else []


def _latest(node: Node) -> int:
    return node.variant


def note_sources(calls: Calls, call: int, node: Node, sources: list[Source]) -> None:
    """Note that the inputs of a call have other sources than in the last call of its node."""
    before = node.variant
    node.sources = sources
    try:
        node.variant = node.variants.index(sources)
    except ValueError:
        if len(node.variants) < MOST_VARIANTS:
            node.variant = len(node.variants)
            node.variants.append(sources)
            calls.renewed.append(node)
        else:
            node.variant = -1
            if calls.further_size + len(sources) <= MOST_FURTHER:
                calls.further[call] = sources
                calls.further_size += len(sources)
    calls.changes.extend((call, node.id, before, node.variant))


def moment(step: int, pass_number: int | None = None) -> str:
    """A step, or a pass of it, in words.

    >>> moment(3, 1)
    'step 3, pass 1'
    """
    return f"step {step}" if pass_number is None else f"step {step}, pass {pass_number}"

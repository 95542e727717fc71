"""One rank of a recording, with what several views need of it, computed once."""

from __future__ import annotations

import bisect
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node
from opscope.read.reader import Reader
from opscope.read.row_store import Records
from opscope.read.scope_tree import Aggregates, ScopeTree, ends, sums_of
from opscope.rundir.ending import FINISHED
from opscope.stats.record import OUTPUT, taken
from opscope.value_type import ValueType

if TYPE_CHECKING:
    from opscope.views.node_answers import NodeLine

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)
_STEPS_KEPT = 8
"""Of how many steps the numbers by node are kept."""
_LASTING_KEPT = 256
"""The number of columns of heat maps that are kept."""


@dataclass(frozen=True)
class NodeNumbers:
    """A summary of each node's outputs in a step, by the node's id."""

    step: int
    rows: NDArray[np.int64]
    min: NDArray[np.float64]
    """NaN where there is none."""
    max: NDArray[np.float64]
    mean_abs: NDArray[np.float64]
    """The largest of its outputs."""
    nan: NDArray[np.int64]
    inf: NDArray[np.int64]
    zero: NDArray[np.int64]
    elements: NDArray[np.int64]

    def of(self, node: int) -> tuple[float | None, float | None, int, int]:
        """Least, largest, NaN and Inf counts of a node."""
        if node >= len(self.rows) or not self.rows[node]:
            return None, None, 0, 0
        low, high = float(self.min[node]), float(self.max[node])
        return low, high, int(self.nan[node]), int(self.inf[node])


class RankView:
    """Questions about one rank; any thread may ask."""

    def __init__(self, reader: Reader, rank: int) -> None:
        self.reader = reader
        self.rank = rank
        self.recorded = reader.recording.rank(rank)
        self._lock = threading.Lock()
        self.sketching = threading.Lock()
        """Held for each step that a sketch over all steps goes through, by one thread at a time:
        whoever asks for less then shares the interpreter with one of them, not with all."""
        self._numbers: OrderedDict[int, NodeNumbers] = OrderedDict()
        self._scopes: OrderedDict[int, Aggregates] = OrderedDict()
        self._lasting: OrderedDict[Hashable, Any] = OrderedDict()
        self.norms: dict[int, float | None] = {}
        """The gradient norms that are known, None for steps without; they stay as they are."""
        self.norms_of = 0
        """The number of nodes whose gradients these are of."""
        self._made: dict[str, Any] = {}

    def forget(self) -> None:
        """Forget what may have changed, as the recording was refreshed."""
        with self._lock:
            self._made = {}
            self._numbers.clear()
            self._scopes.clear()

    def once(self, name: str, make: Callable[[], _T]) -> _T:
        """Make something once under a name, until the recording is refreshed."""
        made = self._made  # a refresh puts another one in its place
        if name not in made:
            made[name] = make()
        found: _T = made[name]
        return found

    def lasting(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Make something once that no later step changes; of many, keep the latest."""
        with self._lock:
            if key in self._lasting:
                self._lasting.move_to_end(key)
                known: _T = self._lasting[key]
                return known
        with self.sketching:  # another thread may have made it meanwhile
            found: _T = _kept(self._lasting, self._lock, key, make, _LASTING_KEPT)
        return found

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Nodes by id."""
        return self.recorded.nodes

    @property
    def backward(self) -> Mapping[int, Sequence[Node]]:
        """By the id of a node: those that compute its gradient."""
        return self.once("backward", self._backward)

    @property
    def recorded_steps(self) -> list[int]:
        """The steps that have numbers, in order."""
        return self.once("steps", lambda: sorted(self.recorded.recorded_steps))

    def step_at(self, step: int | None) -> int | None:
        """The step whose numbers stand for this one: the last recorded one up to it."""
        steps = self.recorded_steps
        if not steps:
            return None
        if step is None:
            return steps[-1]
        return steps[max(0, bisect.bisect_right(steps, step) - 1)]

    @property
    def last_step(self) -> int | None:
        """The last recorded step; what a training did after its last update is none."""
        steps = self.recorded_steps
        ended = self.recorded.steps
        is_rest = bool(ended) and not ended[-1].complete and steps[-1:] == [ended[-1].step]
        if is_rest and len(steps) > 1 and self.recorded.state.kind == FINISHED:
            return steps[-2]
        return steps[-1] if steps else None

    def rows(self, step: int) -> Records:
        """All rows of a step."""
        return self.recorded.stats(steps={step})

    def numbers(self, step: int | None) -> NodeNumbers | None:
        """Summarise each node's outputs in a recorded step; None without a step."""
        if step is None:
            return None
        return _kept(self._numbers, self._lock, step, lambda: self._numbers_of(step))

    def scope_numbers(self, step: int | None) -> Aggregates | None:
        """The same of each scope of `scopes`."""
        if step is None:
            return None
        tree = self.scopes
        return _kept(self._scopes, self._lock, step, lambda: tree.aggregate(self.rows(step)))

    def kinds_of_outputs(self, step: int | None) -> dict[tuple[int, int], ValueType]:
        """Node and slot → the dtype and shape of that output in a recorded step."""
        if step is None:
            return {}
        rows = self.rows(step)
        rows = taken(rows, rows["io"] == OUTPUT)
        types = self.recorded.types
        places = zip(*(rows[name].tolist() for name in ("node", "slot", "shape")), strict=True)
        found = {(node, slot): types.get(number) for node, slot, number in places}
        return {place: kind for place, kind in found.items() if kind is not None}

    @property
    def scopes(self) -> ScopeTree:
        """The scopes as a tree."""
        return self.reader.scopes(self.rank)

    def scope_number(self, name: str) -> int | None:
        """The number of a scope in `scopes`; None if there is no such scope."""
        tree = self.scopes
        numbers = self.once("scope numbers", lambda: {n: i for i, n in enumerate(tree.names)})
        return numbers.get(name)

    @property
    def hits(self) -> Sequence[Mapping[str, Any]]:
        """The hits as they were recorded, in the order of steps and execution."""
        return self.once("hits", self._hits_in_order)

    @property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        """Notes on what did no harm: batches that the script skipped, values that were masked."""
        return self.once("notes", lambda: self.reader.notes([self.rank]))

    def hits_by_node(self, step: int | None = None) -> Counter[int]:
        """Count the hits of nodes, in a step or in all."""
        chosen = (h for h in self.hits if step is None or h.get("step") == step)
        return Counter(h["node"] for h in chosen if isinstance(h.get("node"), int))

    def node_line(self, node: Node, numbers: NodeNumbers | None, hits: Counter[int]) -> NodeLine:
        """A node for a list."""
        where = node.stack.where
        low, high, nan, inf = (None, None, 0, 0) if numbers is None else numbers.of(node.id)
        return {
            "id": node.id,
            "name": node.name,
            "op_type": node.op_type,
            "scope": node.scope,
            "phase": str(node.phase),
            "graph": node.graph,
            "where": "" if where is None else f"{where.file}:{where.line}",
            "file": "" if where is None else where.file,
            "line": 0 if where is None else where.line,
            "parameter": node.parameter,
            "gradient_of": node.gradient_of,
            "min": low,
            "max": high,
            "nan": nan,
            "inf": inf,
            "hits": hits[node.id],
        }

    def _backward(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in self.nodes.values():
            if node.forward is not None:
                found.setdefault(node.forward.id, []).append(node)
        return found

    def _hits_in_order(self) -> list[Mapping[str, Any]]:
        return sorted((hit.data for hit in self.recorded.hits), key=_moment)

    def _numbers_of(self, step: int) -> NodeNumbers:
        rows = self.rows(step)
        size = max(self.nodes, default=-1) + 1
        places = np.flatnonzero((rows["io"] == OUTPUT) & (rows["node"] < size))
        nodes = rows["node"][places].astype(np.int64)
        low, high = ends(rows, places)
        found = NodeNumbers(
            step,
            np.bincount(nodes, minlength=size).astype(np.int64),
            np.full(size, np.nan),
            np.full(size, np.nan),
            np.full(size, np.nan),
            sums_of(nodes, rows["nan"][places], size),
            sums_of(nodes, rows["posinf"][places] + rows["neginf"][places], size),
            sums_of(nodes, rows["zero"][places], size),
            sums_of(nodes, rows["count"][places], size),
        )
        np.fmin.at(found.min, nodes, low)
        np.fmax.at(found.max, nodes, high)
        np.fmax.at(found.mean_abs, nodes, rows["mean_abs"][places])
        return found


def _moment(hit: Mapping[str, Any]) -> tuple[int, int]:
    return int(hit.get("step", 0)), int(hit.get("call", 0))


def _kept(
    cache: OrderedDict[_K, _T],
    lock: threading.Lock,
    key: _K,
    make: Callable[[], _T],
    most: int = _STEPS_KEPT,
) -> _T:
    """Return what is in the cache under a key, made if need be; let the oldest go."""
    with lock:
        if key in cache:
            cache.move_to_end(key)
            return cache[key]
    made = make()
    with lock:
        cache[key] = made
        while len(cache) > most:
            cache.popitem(last=False)
    return made

"""Values of the step under way that somebody wants to look at, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from opscope.arrays import Array
from opscope.errors import OpscopeError
from opscope.events import IO, Call, Node, PassingValue
from opscope.live.spill import Spill
from opscope.messages import say_once
from opscope.stats.torch_values import unsupported_reason

USUAL_BYTES = 1 << 30
SMALL_BYTES = 64 << 20
"""With MS_DEBUGGER_PARTIAL_MEM=1."""
ON_DISK = 4
"""So many times the budget may go to disk."""
NAMED, ALL, NONE = "named", "all", "none"
"""The choices of nodes: those that somebody names, all while somebody looks, none at all."""
PARAMETER = "parameter"
PARAMETER_MARK = "p:"
"""In front of the names of parameters, where nodes are named too."""
_STEPS = 2
"""The latest step that values were kept of, and the one before."""
_NOTED = 1000
"""So many values that were dropped are known by name."""


Range = tuple[float, float]
"""Both ends belong to it."""


class ValueKey(NamedTuple):
    """The key of a value: of a node by its id, or of a parameter by its name."""

    step: int
    subject: int | str
    io: str
    slot: int


def as_array(tensor: Any) -> Array:
    """A copy of a tensor in the host's memory; types that NumPy has not become float32."""
    copied = tensor.detach().to("cpu", copy=True).resolve_conj().resolve_neg()
    try:
        array: Array = copied.numpy()
    except TypeError:
        array = copied.float().numpy()
    return array


class KeptValues:
    """Copies in the host's memory and then on disk: a device's memory holds none of them.

    They are made when a value passes by, so that writing in place changes none, and are arrays, not
    tensors, so that other threads than the one that trains can look at them.
    """

    def __init__(
        self, budget: int = USUAL_BYTES, mode: str = NAMED, spill: Spill | None = None
    ) -> None:
        self.budget = budget
        self.mode = mode
        self.is_watched: Callable[[Node], bool] = lambda node: False
        """Tells of a node whether a watchpoint names it."""
        self.is_attended: Callable[[], bool] = lambda: False
        """Tells whether anybody is there to look."""
        self.dropped = 0
        """The number of values there was no room for, or that had to make room."""
        self._patterns: tuple[str, ...] = ()
        self._values: OrderedDict[ValueKey, Array] = OrderedDict()
        self._noted: OrderedDict[ValueKey, None] = OrderedDict()
        self._calls: dict[ValueKey, int] = {}
        """The call that a value is of: the latest, if its node ran several times in a step."""
        self._bytes = 0
        self._latest = -1
        self._spill = spill
        self._lock = threading.Lock()

    @property
    def patterns(self) -> tuple[str, ...]:
        """Names and globs of the nodes and parameters whose values are kept."""
        return self._patterns

    def keep(self, patterns: Sequence[str], mode: str = NAMED) -> None:
        """Keep the values of these nodes from now on, by name, scope or glob, or all or none."""
        if mode not in (NAMED, ALL, NONE):
            raise OpscopeError(f"{mode}: must be {NAMED}, {ALL} or {NONE}")
        if patterns and mode == NONE:
            raise OpscopeError("no values are kept in this training: --keep none")
        self.mode, self._patterns = mode, tuple(patterns)

    def wants(self, node: Node) -> bool:
        """Tell whether the values of a node are to be kept."""
        if self.mode == NONE:
            return False
        if (self.mode == ALL or self.is_watched(node)) and self.is_attended():
            return True
        return any(_names(pattern, node) for pattern in self._patterns)

    def wants_parameter(self, name: str) -> bool:
        """Tell whether a parameter is kept at the end of every step."""
        marked = [p.removeprefix(PARAMETER_MARK) for p in self._patterns if _is_marked(p)]
        return self.mode != NONE and any(fnmatchcase(name, pattern) for pattern in marked)

    @property
    def names_parameters(self) -> bool:
        """True if any parameters are named."""
        return any(map(_is_marked, self._patterns))

    def add(self, call: Call, io: IO, values: Sequence[PassingValue]) -> None:
        """Copy values as they are now."""
        if self.mode == NONE:
            return
        if call.step != self._latest:
            self._latest = call.step
            self._forget_nodes(call.step - _STEPS)
        for value in values:
            if value.tensor is not None:
                key = ValueKey(call.step, call.node.id, str(io), value.slot)
                self._calls[key] = call.index
                self._add(key, value.tensor)

    def counts(self, step: int, ranges: Sequence[Range]) -> list[tuple[int, str, int, int, int]]:
        """Call, side, slot, which range, and how many elements of the value are in it."""
        found = []
        for key in self.present():
            array = self.get(key) if key.step == step and key in self._calls else None
            if array is not None and array.dtype.kind in "biuf":
                for place, (low, high) in enumerate(ranges):
                    count = int(np.count_nonzero((array >= low) & (array <= high)))
                    found.append((self._calls[key], key.io, key.slot, place, count))
        return found

    def add_parameters(self, step: int, parameters: Mapping[str, Any]) -> None:
        """Copy parameters as they are now, at the end of a step."""
        for name, tensor in parameters.items():
            self._add(ValueKey(step, name, PARAMETER, 0), tensor)

    def begin_step(self, step: int) -> None:
        """Forget what is old as a step begins; training may hold before any of it is kept.

        It may also hold as the next step has begun, to look at the last one: that has used what
        the step before it has left, to be compared with what the one before that has left.
        """
        if not self._values and not self._noted and (self._spill is None or self._spill.is_empty):
            return
        last = step - _STEPS - 2
        with self._lock:
            for key in [key for key in self._values if key.step <= last]:
                self._forget_in_memory(key)
            for key in [key for key in self._noted if key.step <= last]:
                del self._noted[key]
            self._calls = {key: call for key, call in self._calls.items() if key.step > last}
            for old in self._spill.steps() if self._spill is not None else ():
                if old <= last:
                    self._drop_spilled(old, is_noted=False)

    def _forget_nodes(self, last: int) -> None:
        """Forget the values of nodes up to this step, now that one of a later step is kept."""
        with self._lock:
            for key in [key for key in self._calls if key.step <= last]:
                self._forget(key)
                del self._calls[key]

    def get(self, key: ValueKey) -> Array | None:
        """A value, or None."""
        with self._lock:
            found = self._values.get(key)
            if found is None and self._spill is not None:
                found = self._spill.get(key.step, key)
            return found

    def was_dropped(self, key: ValueKey) -> bool:
        """Tell whether a value was to be kept, and there was no room for it."""
        with self._lock:
            return key in self._noted

    def present(self) -> list[ValueKey]:
        """Return what there is."""
        with self._lock:
            spill = self._spill
            spilled = [key for s in spill.steps() for key in spill.present(s)] if spill else []
            return [*spilled, *self._values]

    def _add(self, key: ValueKey, tensor: Any) -> None:
        if unsupported_reason(tensor):
            return
        size = tensor.numel() * tensor.element_size()
        with self._lock:
            self._forget(key)
            if not self._make_room(size):
                self._note_dropped(key)
                return
        copied = as_array(tensor)
        with self._lock:
            self._values[key] = copied
            self._bytes += copied.nbytes

    def _make_room(self, size: int) -> bool:
        """Move the oldest to disk; where that is full too, what is of an earlier step goes."""
        if size > self.budget:
            return False
        while self._bytes + size > self.budget:
            oldest = next(iter(self._values))
            if not self._move(oldest, self._values[oldest]):
                self._note_dropped(oldest)
            self._forget_in_memory(oldest)
        return True

    def _move(self, key: ValueKey, array: Array) -> bool:
        if self._spill is None:
            return False
        while not self._spill.put(key.step, key, array):
            earlier = [step for step in self._spill.steps() if step < key.step]
            if not earlier:
                return False
            self._drop_spilled(earlier[0], is_noted=True)
        return True

    def _drop_spilled(self, step: int, is_noted: bool) -> None:
        assert self._spill is not None
        for key in self._spill.present(step) if is_noted else ():
            self._note_dropped(key)
        self._spill.end_step(step)

    def _note_dropped(self, key: ValueKey) -> None:
        self.dropped += 1
        self._noted[key] = None
        say_once(f"there is no room for all values to keep: {self.budget} bytes, and on disk")
        while len(self._noted) > _NOTED:
            self._noted.popitem(last=False)

    def _forget(self, key: ValueKey) -> None:
        self._forget_in_memory(key)
        if self._spill is not None:
            self._spill.forget(key.step, key)

    def _forget_in_memory(self, key: ValueKey) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._bytes -= old.nbytes


def total_bytes(tensors: Iterable[Any]) -> int:
    """Return how much room tensors need."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _is_marked(pattern: str) -> bool:
    return pattern.startswith(PARAMETER_MARK)


def _names(pattern: str, node: Node) -> bool:
    return (
        node.name == pattern
        or fnmatchcase(node.name, pattern)
        or node.scope == pattern
        or node.scope.startswith(f"{pattern}/")
    )

"""Values of the step under way that somebody wants to look at, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from opscope.arrays import Array
from opscope.events import IO, Call, Node, Value
from opscope.stats.torch_values import unsupported_reason

USUAL_BYTES = 1 << 30
SMALL_BYTES = 64 << 20
"""With MS_DEBUGGER_PARTIAL_MEM=1."""
_STEPS = 2
"""The step under way and the one before."""


class Key(NamedTuple):
    """Which value."""

    step: int
    node: int
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
    """Copies in the host's memory, made when a value passes by: writing in place changes none.

    They are arrays, not tensors, so that other threads than the one that trains can look at them.
    """

    def __init__(self, budget: int = USUAL_BYTES) -> None:
        self.budget = budget
        self.dropped = 0
        """How many values there was no room for, or that had to make room."""
        self._patterns: tuple[str, ...] = ()
        self._values: OrderedDict[Key, Array] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def patterns(self) -> tuple[str, ...]:
        """Names and globs of the nodes whose values are kept."""
        return self._patterns

    def keep(self, patterns: Sequence[str]) -> None:
        """Keep the values of these nodes from now on, by name, scope or glob."""
        self._patterns = tuple(patterns)

    def wants(self, node: Node) -> bool:
        """Whether the values of a node are to be kept."""
        return any(
            node.name == pattern
            or fnmatchcase(node.name, pattern)
            or node.scope == pattern
            or node.scope.startswith(f"{pattern}/")
            for pattern in self._patterns
        )

    def add(self, call: Call, io: IO, values: Sequence[Value]) -> None:
        """Copy values as they are now."""
        for value in values:
            tensor = value.tensor
            if tensor is None or unsupported_reason(tensor):
                continue
            size = tensor.numel() * tensor.element_size()
            key = Key(call.step, call.node.id, str(io), value.slot)
            with self._lock:
                self._forget(key)
                if not self._make_room(size):
                    self.dropped += 1
                    continue
            copied = as_array(tensor)
            with self._lock:
                self._values[key] = copied
                self._bytes += copied.nbytes

    def begin_step(self, step: int) -> None:
        """Only this step and the one before are kept."""
        if not self._values:
            return
        with self._lock:
            for key in [key for key in self._values if key.step <= step - _STEPS]:
                self._forget(key)

    def get(self, key: Key) -> Array | None:
        """A value, or None."""
        with self._lock:
            return self._values.get(key)

    def present(self) -> list[Key]:
        """What there is."""
        with self._lock:
            return list(self._values)

    def _make_room(self, size: int) -> bool:
        if size > self.budget:
            return False
        while self._bytes + size > self.budget:
            oldest = next(iter(self._values))
            self._forget(oldest)
            self.dropped += 1
        return True

    def _forget(self, key: Key) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._bytes -= old.nbytes

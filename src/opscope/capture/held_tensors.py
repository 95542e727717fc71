"""Tensors held on to as they are: copied only when something is about to write to them."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from torch import Tensor

from opscope.stats.torch_values import storage_start, unsupported_reason


class WriteWarnings(Protocol):
    """Tells holders before an operator writes to memory they hold."""

    def hold(self, storage: int) -> None:
        """Ask to be told before anything writes to this memory."""

    def let_go(self) -> None:
        """Ask no longer to be told of writes."""


class Held:
    """A tensor, or a copy of it from before it was written to."""

    __slots__ = ("_original", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._original = weakref.ref(tensor)

    def is_of(self, tensor: Tensor) -> bool:
        """Tell whether this holds `tensor`, be it itself or a copy."""
        return self._original() is tensor


class HeldTensors:
    """A few tensors, by the memory they lie in."""

    def __init__(self) -> None:
        self._by_storage: dict[int, list[Held]] = {}
        self.writes: WriteWarnings | None = None
        """Native code, which has to be asked to announce writes; Python announces all of them."""

    def hold(self, tensor: Tensor) -> Held:
        """Hold on to a tensor as it is now."""
        held = Held(tensor)
        if not unsupported_reason(tensor):
            start = storage_start(tensor)
            self._by_storage.setdefault(start, []).append(held)
            if self.writes is not None:
                self.writes.hold(start)
        return held

    def before_write(self, tensor: Any) -> None:
        """Copy what is held of this tensor's memory, before something writes to it."""
        if not self._by_storage:
            return
        for held in self._by_storage.pop(storage_start(tensor), ()):
            held.tensor = held.tensor.detach().clone()

    def clear(self) -> None:
        """Let go of all of them."""
        if self._by_storage:
            self._by_storage.clear()
            if self.writes is not None:
                self.writes.let_go()

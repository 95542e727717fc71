"""When a step ends: after every live optimizer has stepped, told from hooks and patches."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from opscope.messages import say_once

_PATIENCE = 32
"""An optimizer that stays still while another steps this often no longer counts."""


class StepClock:
    """Decides where steps end; knows optimizers only by identity."""

    def __init__(
        self, end_step: Callable[[bool], None], is_used: Callable[[Any], bool] = lambda o: True
    ) -> None:
        self._end_step = end_step
        self._is_used = is_used
        self._doubtful: weakref.WeakSet[Any] = weakref.WeakSet()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stepped: dict[int, int] = {}
        self._attempted: set[int] = set()
        self._manual = False

    @property
    def manual(self) -> bool:
        """Whether `opscope.step()` has taken over."""
        return self._manual

    @property
    def has_optimizer(self) -> bool:
        """Whether any optimizer is alive."""
        return len(self._optimizers) > 0

    def live(self) -> list[Any]:
        """The optimizers that are alive."""
        return list(self._optimizers)

    def add(self, optimizer: Any) -> None:
        """A new optimizer to wait for."""
        self._optimizers.add(optimizer)

    def add_found(self, optimizer: Any) -> None:
        """An optimizer from before: waited for only if its parameters are used at all."""
        self._optimizers.add(optimizer)
        self._doubtful.add(optimizer)

    def mark(self) -> None:
        """The script says itself where a step ends, from now on."""
        self._manual = True
        self._end(skipped=False)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has made its step."""
        self._optimizers.add(optimizer)
        key = id(optimizer)
        self._attempted.discard(key)
        self._stepped[key] = self._stepped.get(key, 0) + 1
        if self._stepped[key] >= _PATIENCE:
            self._drop_idle(optimizer)
        self._end_if_all(skipped=False)

    def scaler_stepped(self, optimizer: Any) -> None:
        """A gradient scaler was asked to step; it may skip the optimizer."""
        if id(optimizer) not in self._stepped:
            self._attempted.add(id(optimizer))

    def scaler_updated(self) -> None:
        """A gradient scaler finished: what it skipped counts as stepped."""
        if not self._attempted:
            return
        for key in self._attempted:
            self._stepped[key] = self._stepped.get(key, 0) + 1
        self._attempted.clear()
        self._end_if_all(skipped=True)

    def outermost_call_ended(self) -> None:
        """Without any optimizer, one call of the outermost module is a step."""
        if not self._manual and not self._optimizers:
            self._end(skipped=False)

    def _end_if_all(self, skipped: bool) -> None:
        if not self._manual and not any(self._awaited(o) for o in self._optimizers):
            self._end(skipped)

    def _awaited(self, optimizer: Any) -> bool:
        if id(optimizer) in self._stepped:
            return False
        return optimizer not in self._doubtful or self._is_used(optimizer)

    def _end(self, skipped: bool) -> None:
        self._stepped.clear()
        self._attempted.clear()
        self._end_step(skipped)

    def _drop_idle(self, busy: Any) -> None:
        for other in list(self._optimizers):
            if other is not busy and id(other) not in self._stepped:
                self._optimizers.discard(other)
                say_once(
                    f"{type(other).__name__} has not stepped while {type(busy).__name__} made "
                    f"{_PATIENCE} steps: steps are counted without it"
                )

"""When a step ends: after every live optimizer has stepped, told from hooks and patches."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from opscope.messages import say_once

_PATIENCE = 32
"""An optimizer that stays still while another steps this often no longer counts."""


class StepClock:
    """Decides where steps end; knows optimizers only by identity."""

    def __init__(self, end_step: Callable[[bool], None]) -> None:
        self._end_step = end_step
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stepped: dict[int, int] = {}
        self._attempted: set[int] = set()
        self._collected = False
        self._manual = False

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
        self._collected = False

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
        if self._manual:
            return
        if not self._have_all_stepped() and not self._collected:
            self._collected = True  # what is waited for may be garbage by now
            gc.collect()
        if self._have_all_stepped():
            self._end(skipped)

    def _have_all_stepped(self) -> bool:
        return all(id(optimizer) in self._stepped for optimizer in self._optimizers)

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

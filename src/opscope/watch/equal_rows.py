"""Finds weights whose rows are all alike: in the first step, and once more later."""

from __future__ import annotations

from typing import Any

from opscope.events import Node, Want
from opscope.judge.conditions.weights_equal import WEIGHTS_EQUAL
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.torch_values import unsupported_reason
from opscope.watch.compared import has_weight

_LATER = 10
"""After so many steps units that began alike have parted, if they ever do."""

_ROUNDING = 1e-6
_HALF = 2
"""The bytes of the smallest numbers that torch computes with on every device."""


class EqualRows:
    """Looks at weights in two steps, in the second only at those that were alike in the first."""

    def __init__(self) -> None:
        self._is_wanted = False
        self._looks = True
        self._alike: list[str] | None = None
        """The weights that were alike when last looked at."""
        self._found: list[str] = []
        self._first = 0
        self._has_changed = False

    def watch(self, watchpoints: list[Watchpoint]) -> None:
        """Look at weights only if somebody asks for it."""
        self._is_wanted = any(w.condition is WEIGHTS_EQUAL for w in watchpoints)

    def wants(self, node: Node) -> Want:
        """Return what is wanted of a node."""
        looks = self._is_wanted and self._looks and has_weight(node)
        return Want.PARAMETERS if looks else Want.NOTHING

    def take_change(self) -> bool:
        """Return whether something else is wanted than when this was last asked."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def parameter(self, name: str, tensor: Any) -> None:
        """Look at a weight as it is first used in a step."""
        if not self._is_wanted or not self._looks:
            return
        if (self._alike is None or name in self._alike) and _is_alike(tensor):
            self._found.append(name)

    def end_step(self, step: int) -> list[str]:
        """Return what has been found to be alike in a step; nothing where it was not looked for."""
        if not self._is_wanted:
            return []
        if self._looks:
            found, self._found = self._found, []
            is_first = self._alike is None
            self._alike, self._first = (found, step) if is_first else ([], self._first)
            self._looks, self._has_changed = False, True
            return found
        if self._alike and step + 1 == self._first + _LATER:
            self._looks = self._has_changed = True
        return []


def _is_alike(tensor: Any) -> bool:
    if unsupported_reason(tensor) or not tensor.is_floating_point() or tensor.itemsize < _HALF:
        return False
    if tensor.dim() < 2 or min(tensor.shape[:2]) < 2 or not tensor.numel():
        return False
    values = tensor.detach()
    return _is_like(values[1:2], values[:1]) and _is_like(values[1:], values[:1])


def _is_like(rows: Any, first: Any) -> bool:
    """Tell whether rows are like the first one but for rounding."""
    return bool((rows - first).abs().max() <= _ROUNDING * first.abs().max())

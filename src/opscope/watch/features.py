"""Looks at the features of the data in some steps, for those that ask for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from opscope.calls import Calls
from opscope.events import Call, FeatureFact, Node, PassingValue, Want
from opscope.judge.features import MOST_FEATURES, PRODUCTS, STEPS_SEEN
from opscope.judge.graph_check import data_inputs
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.torch_values import unsupported_reason

_MOST_ELEMENTS = 1 << 22
_NAMED = 16
_FLAGS = (0.0, 1.0)
"""The numbers by which data says that something is not so, or is: one of them may be rare."""


class Features:
    """Adds up the features that linear layers read of data, over the first steps."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._slots: dict[int, list[int]] = {}
        """By node: the inputs to look at."""
        self._sums: dict[tuple[int, int], _Sums] = {}
        self._steps = 0
        self._is_over = False
        self._has_changed = False

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Look at features only if a condition asks for them."""
        checks = (watchpoint.condition.training for watchpoint in watchpoints)
        self.is_wanted = any(check is not None and check.needs_features for check in checks)

    def wants(self, node: Node) -> Want:
        """Return what is wanted of a node."""
        looks = self.is_wanted and not self._is_over and node.id in self._slots
        return Want.INPUT_VALUES if looks else Want.NOTHING

    def take_change(self) -> bool:
        """Return whether something else is wanted than when this was last asked."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        """Add the data that a layer is about to read."""
        slots = self._slots.get(call.node.id, ())
        for value in values:
            if value.slot in slots and _is_table(value.tensor):
                place = call.node.id, value.slot
                self._sums.setdefault(place, _Sums()).add(value.tensor.detach())

    def end_step(self, calls: Calls) -> Iterator[FeatureFact]:
        """Find out what to look at; yield what was found when enough steps have been seen."""
        if not self.is_wanted or self._is_over:
            return
        if not self._slots:
            for _, node, slot in data_inputs(calls, *PRODUCTS):
                self._slots.setdefault(node.id, []).append(slot)
            self._has_changed = bool(self._slots)
            return
        self._steps += 1
        if self._steps == STEPS_SEEN:
            self._is_over = self._has_changed = True
            for place, sums in self._sums.items():
                fact = sums.fact(*place)
                if fact is not None:
                    yield fact
            self._sums.clear()


class _Sums:
    """Sums over samples, by feature."""

    def __init__(self) -> None:
        self._count = 0
        self._features = 0
        self._centre: Any = None
        self._sum: Any = None
        self._squares: Any = None
        self._low: Any = None
        self._high: Any = None

    def add(self, tensor: Any) -> None:
        """Add a batch; one of another width is left out."""
        rows = tensor.reshape(-1, tensor.shape[-1]).double()
        if self._count and rows.shape[1] != self._features:
            return
        if not self._count:
            self._features, self._centre = rows.shape[1], rows.mean(0)
            self._sum = self._squares = rows.new_zeros(rows.shape[1])
            self._low, self._high = rows[0], rows[0]
        moved = rows - self._centre
        self._count += rows.shape[0]
        self._sum = self._sum + moved.sum(0)
        self._squares = self._squares + moved.square().sum(0)
        self._low, self._high = self._low.minimum(rows.amin(0)), self._high.maximum(rows.amax(0))

    def fact(self, node: int, slot: int) -> FeatureFact | None:
        """Return what features were like; nothing if some were not finite."""
        mean = self._sum / self._count
        spread = (self._squares / self._count - mean.square()).clamp(min=0).sqrt().tolist()
        low, high = self._low.tolist(), self._high.tolist()
        if not all(map(math.isfinite, (*spread, *low, *high))):
            return None
        varying = [(i, s) for i, s in enumerate(spread) if low[i] != high[i]] or [(0, 0.0)]
        constant = [i for i in range(len(low)) if low[i] == high[i] not in _FLAGS][:_NAMED]
        return FeatureFact(
            node,
            slot,
            self._count,
            self._features,
            tuple(constant),
            low[constant[0]] if constant else 0.0,
            min(varying, key=lambda each: each[1]),
            max(varying, key=lambda each: each[1]),
        )


def _is_table(tensor: Any) -> bool:
    """Tell whether a tensor has samples, and features that are few enough to be meant as such."""
    if unsupported_reason(tensor) or not tensor.is_floating_point():
        return False
    if tensor.dim() < 2 or tensor.numel() > _MOST_ELEMENTS:
        return False
    return bool(tensor.numel() > 0 and 2 <= tensor.shape[-1] <= MOST_FEATURES)

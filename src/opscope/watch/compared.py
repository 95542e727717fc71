"""What conditions need beyond rows: elements in a range, and the weights of the step before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.events import Call, Node, Value, Want
from opscope.stats.native_cpu import count_in_range
from opscope.stats.torch_values import unsupported_reason
from opscope.stats.two_tensors import Difference, difference
from opscope.watch.catalogue import WEIGHT
from opscope.watch.numbers import Change
from opscope.watch.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.watch.selection import is_weight
from opscope.watch.table import Table
from opscope.watch.watchpoint import Watchpoint

_NOTHING = Difference(math.nan, math.nan, math.nan, 0, 0, 0, 0)


class Compared:
    """Looks at the tensors themselves, where a watchpoint asks for more than their rows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._ranges: list[Watchpoint] = []
        self._weight_ranges: list[Watchpoint] = []
        self._changes: list[Watchpoint] = []
        self._inside: dict[tuple[int, int, int], int] = {}
        self._weights_inside: dict[tuple[int, str], int] = {}
        self._differences: dict[tuple[int, str], Difference | int] = {}
        self._before: dict[str, Any] = {}

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Look for these from now on."""
        ranges = [w for w in watchpoints if _has_range(w)]
        self._ranges = [w for w in ranges if w.cls != WEIGHT]
        self._weight_ranges = [w for w in ranges if w.cls == WEIGHT]
        self._changes = [w for w in watchpoints if w.condition.needs_change]
        if not self._changes:
            self._before.clear()

    def wants(self, node: Node) -> Want:
        """What of a node, beside its rows."""
        want = Want.NOTHING
        if any(self._table.selects(w, node) for w in self._ranges):
            want |= Want.OUTPUT_VALUES
        if (self._changes or self._weight_ranges) and any(map(is_weight, node.sources)):
            want |= Want.PARAMETERS
        return want

    def outputs(self, call: Call, values: Sequence[Value]) -> None:
        """Count the elements of outputs that are in a range."""
        for watchpoint in self._ranges:
            if self._table.selects(watchpoint, call.node):
                for value in values:
                    key = watchpoint.id, call.node.id, value.slot
                    self._inside[key] = _inside(watchpoint, value.tensor)

    def parameter(self, step: int, name: str, tensor: Any) -> None:
        """Compare a parameter with what it was in the step before."""
        for watchpoint in self._weight_ranges:
            self._weights_inside[watchpoint.id, name] = _inside(watchpoint, tensor)
        if not self._changes or unsupported_reason(tensor):
            return
        before = self._before.get(name)
        for watchpoint in self._changes:
            self._differences[watchpoint.id, name] = _compare(watchpoint, tensor, before)
        if before is not None and before.shape == tensor.shape and before.dtype == tensor.dtype:
            before.copy_(tensor.detach())
        else:
            self._before[name] = tensor.detach().clone()

    def numbers(
        self, watchpoint: Watchpoint, records: NDArray[np.void], names: Sequence[str]
    ) -> dict[str, Any]:
        """The further columns of some rows; `names` are the parameters they are of, if any."""
        if watchpoint.condition.needs_change:
            return self._change(watchpoint, names)
        if not _has_range(watchpoint):
            return {}
        if watchpoint.cls == WEIGHT:
            found = [self._weights_inside.get((watchpoint.id, name), -1) for name in names]
        else:
            keys = zip(records["node"].tolist(), records["slot"].tolist(), strict=True)
            found = [self._inside.get((watchpoint.id, node, slot), -1) for node, slot in keys]
        missing = [CHECKED if count >= 0 else NO_VALUES for count in found]
        return {
            "in_range": np.array(found, np.float64),
            "missing": np.array(missing, np.uint8),
        }

    def _change(self, watchpoint: Watchpoint, names: Sequence[str]) -> dict[str, Any]:
        found = [self._differences.get((watchpoint.id, name), NO_PREVIOUS) for name in names]
        differences = [d if isinstance(d, Difference) else _NOTHING for d in found]
        missing = [CHECKED if isinstance(d, Difference) else d for d in found]
        return {"change": Change.of(differences), "missing": np.array(missing, np.uint8)}


def _has_range(watchpoint: Watchpoint) -> bool:
    return "range_percentage_lt" in watchpoint.params or "range_percentage_gt" in watchpoint.params


def _inside(watchpoint: Watchpoint, tensor: Any) -> int:
    if unsupported_reason(tensor):
        return -1
    low = watchpoint.params.get("range_start_inclusive", -math.inf)
    high = watchpoint.params.get("range_end_inclusive", math.inf)
    if tensor.is_cpu:
        return count_in_range(tensor, low, high)
    values = tensor.detach()
    if values.is_complex():
        values = values.abs()
    return int(((values >= low) & (values <= high)).sum().item())


def _compare(watchpoint: Watchpoint, now: Any, before: Any) -> Difference | int:
    if before is None:
        return NO_PREVIOUS
    if before.shape != now.shape:
        return RESHAPED
    params = watchpoint.params
    rtol, atol = params.get("rtol", 0.0), params.get("atol", 0.0)
    equal_nan = bool(params.get("equal_nan", 0.0))
    if now.is_cuda and before.device == now.device:
        from opscope.stats.cuda.pair import pair

        return Difference(*pair(now.detach(), before, rtol, atol, equal_nan=equal_nan))
    a, b = now.detach().cpu(), before.cpu()
    return difference(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

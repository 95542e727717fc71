"""Evidence that only a running training has: elements in a range, and weights as they were."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from opscope.events import Call, Node, PassingValue, Want
from opscope.judge.condition import WEIGHT
from opscope.judge.evidence import (
    FurtherColumns,
    Indices,
    Lacking,
    Records,
    counts_range,
    ends_of,
    tolerance_of,
)
from opscope.judge.numbers import Change
from opscope.judge.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.judge.selection import is_weight
from opscope.judge.table import Table
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.devices import kind_of
from opscope.stats.native_cpu import count_in_range
from opscope.stats.torch_values import unsupported_reason
from opscope.stats.two_tensors import Difference, difference

_NOTHING = Difference(math.nan, math.nan, math.nan, 0, 0, 0, 0)


class _Before(NamedTuple):
    """A parameter as it was in an earlier step."""

    step: int
    tensor: Any


class _Compared(NamedTuple):
    """The comparison of a parameter in a step with what it was in an earlier one."""

    found: Difference | int
    """The distance it moved, or the code of why that is not known."""
    before: int
    """The earlier step, -1 for none."""
    step: int


class TensorComparison:
    """Looks at the tensors themselves, where a watchpoint asks for more than their rows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._ranges: list[Watchpoint] = []
        self._weight_ranges: list[Watchpoint] = []
        self._changes: list[Watchpoint] = []
        self._inside: dict[tuple[int, int, int, int], int] = {}
        """By watchpoint, step, call and slot: how many elements are in the range."""
        self._weights_inside: dict[tuple[int, str], int] = {}
        self._differences: dict[tuple[int, str], _Compared] = {}
        """By watchpoint and parameter: the latest comparison."""
        self._before: dict[str, _Before] = {}
        self._without_weight: set[int] = set()
        """The nodes that were passed over since they had read no parameter when they were new."""

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Look for these from now on."""
        ranges = [w for w in watchpoints if counts_range(w)]
        self._ranges = [w for w in ranges if w.cls != WEIGHT]
        self._weight_ranges = [w for w in ranges if w.cls == WEIGHT]
        self._changes = [w for w in watchpoints if w.condition.needs_change]
        if not self._changes:
            self._before.clear()

    def wants(self, node: Node) -> Want:
        """Return what is wanted of a node, beside its rows."""
        want = Want.NOTHING
        if any(self._selects(w, node) for w in self._ranges):
            want |= Want.OUTPUT_VALUES
        if self._changes or self._weight_ranges:
            if has_weight(node):
                want |= Want.PARAMETERS
            else:
                self._without_weight.add(node.id)
        return want

    def misses(self, renewed: Iterable[Node]) -> bool:
        """Tell whether one of these nodes reads a parameter now, and did not when it was new.

        A network that is made during training does so: in its first step, its parameters are
        outputs of the operators that fill them.
        """
        gained = {n.id for n in renewed if n.id in self._without_weight and has_weight(n)}
        self._without_weight -= gained
        return bool(gained)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        """Count the elements of outputs that are in a range."""
        for watchpoint in self._ranges:
            for value in values:
                if self._table.selects(watchpoint, call.node, value.slot):
                    key = watchpoint.id, call.step, call.index, value.slot
                    self._inside[key] = _inside(watchpoint, value.tensor)

    def parameter(self, step: int, name: str, tensor: Any) -> None:
        """Compare a parameter with what it was in the step before."""
        for watchpoint in self._weight_ranges:
            self._weights_inside[watchpoint.id, name] = _inside(watchpoint, tensor)
        if not self._changes or unsupported_reason(tensor):
            return
        before = self._before.get(name, _Before(-1, None))
        for watchpoint in self._changes:
            found = _compare(watchpoint, tensor, before.tensor)
            self._differences[watchpoint.id, name] = _Compared(found, before.step, step)
        kept = before.tensor
        if kept is not None and kept.shape == tensor.shape and kept.dtype == tensor.dtype:
            kept.copy_(tensor.detach())
        else:
            kept = tensor.detach().clone()
        self._before[name] = _Before(step, kept)

    def changes(self, step: int) -> list[tuple[str, tuple[float, float, bool], Difference]]:
        """Return the moves of the parameters that a step used: name, tolerance, difference."""
        tolerances = {each.id: tolerance_of(each.params) for each in self._changes}
        return [
            (name, tolerances[number], compared.found)
            for (number, name), compared in self._differences.items()
            if isinstance(compared.found, Difference)
            and number in tolerances
            and compared.step == step
        ]

    def end_step(self, step: int) -> None:
        """Forget what was counted up to this step."""
        if self._inside:
            self._inside = {key: n for key, n in self._inside.items() if key[1] > step}

    def columns(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str], rows: Indices
    ) -> FurtherColumns:
        """Return the further columns of some rows; `names` are the parameters they are of."""
        if watchpoint.condition.needs_change:
            return self._change(watchpoint, records, names)
        if not counts_range(watchpoint):
            return FurtherColumns()
        if watchpoint.cls == WEIGHT:
            found = [self._weights_inside.get((watchpoint.id, name), -1) for name in names]
        else:
            keys = zip(*(records[name].tolist() for name in ("step", "call", "slot")), strict=True)
            found = [self._inside.get((watchpoint.id, *key), -1) for key in keys]
        missing = [CHECKED if count >= 0 else NO_VALUES for count in found]
        return FurtherColumns(np.array(found, np.float64), missing=np.array(missing, np.uint8))

    def lacking(self, watchpoint: Watchpoint, rows: Indices) -> Lacking | None:
        """A training that runs has whole rows."""
        return None

    def _change(
        self, watchpoint: Watchpoint, records: Records, names: Sequence[str]
    ) -> FurtherColumns:
        steps = records["step"].tolist()
        compared = [
            self._compared_in(step, watchpoint, name)
            for step, name in zip(steps, names, strict=True)
        ]
        differences = [c.found if isinstance(c.found, Difference) else _NOTHING for c in compared]
        missing = [CHECKED if isinstance(c.found, Difference) else c.found for c in compared]
        return FurtherColumns(
            change=Change.of(differences),
            missing=np.array(missing, np.uint8),
            before=[c.before for c in compared],
        )

    def _compared_in(self, step: int, watchpoint: Watchpoint, name: str) -> _Compared:
        """Return the comparison of a parameter in a step; one of another step tells nothing."""
        latest = self._differences.get((watchpoint.id, name))
        if latest is None:
            return _Compared(NO_PREVIOUS, -1, step)
        return latest if latest.step == step else _Compared(NO_VALUES, -1, step)

    def _selects(self, watchpoint: Watchpoint, node: Node) -> bool:
        slots = range(len(node.outputs) or 1)
        return any(self._table.selects(watchpoint, node, slot) for slot in slots)


def has_weight(node: Node) -> bool:
    """Tell whether a node has ever read a parameter, be it not in its latest call."""
    return any(is_weight(source) for sources in node.variants for source in sources)


def _inside(watchpoint: Watchpoint, tensor: Any) -> int:
    if unsupported_reason(tensor):
        return -1
    low, high = ends_of(watchpoint)
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
    rtol, atol, equal_nan = tolerance_of(watchpoint.params)
    kind = kind_of(now)
    if kind is not None and before.device == now.device:
        return Difference(*kind.pair(now.detach(), before, rtol, atol, equal_nan=equal_nan))
    a, b = now.detach().cpu(), before.cpu()
    return difference(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

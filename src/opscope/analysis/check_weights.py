"""Parameters as they are first used in each step, and how they were in the step before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opscope.calls import sources_in
from opscope.events import Node, Outside, Phase
from opscope.read.calls import Variant
from opscope.stats.record import INPUT, joined
from opscope.watch.numbers import Change, Numbers
from opscope.watch.outcome import NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.watch.selection import is_watched, is_weight
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
Integers = NDArray[np.int64]
_MAX_SLOT = 1 << 12
_STEP_BITS, _SLOT_BITS = 30, 12
_ROUNDING = 1e-9
"""Numbers of rows are this exact, relative to the mean of |x|, or better."""


@dataclass(frozen=True)
class Weights:
    """Rows of parameters, one per parameter and step, in this order."""

    records: Records
    names: Sequence[str]
    """The parameter of each row."""
    previous: Integers
    """Where the row of the same parameter in the step before is, -1 for none."""

    @property
    def steps_before(self) -> Integers:
        """The step that each row is compared with, -1 for none."""
        if not len(self.records):
            return np.empty(0, np.int64)
        steps = self.records["step"].astype(np.int64)
        return np.where(self.previous >= 0, steps[self.previous], -1)


def in_order(records: Records, names: Sequence[str]) -> Weights:
    """The first use of each parameter in each step."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    parameter = np.array([numbers[name] for name in names], np.int64)
    order = np.lexsort((records["call"], records["step"], parameter))
    records, parameter = records[order], parameter[order]
    if not len(order):
        return Weights(records, [], np.empty(0, np.int64))
    same = parameter[1:] == parameter[:-1]
    first = np.concatenate(([True], ~(same & (records["step"][1:] == records["step"][:-1]))))
    records, parameter = records[first], parameter[first]
    follows = np.concatenate(([False], parameter[1:] == parameter[:-1]))
    previous = np.where(follows, np.arange(len(records)) - 1, -1)
    by_number = list(numbers)
    return Weights(records, [by_number[number] for number in parameter.tolist()], previous)


class ParameterInputs:
    """Knows which inputs are parameters, in whichever step."""

    def __init__(
        self,
        nodes: Mapping[int, Node],
        variants: Mapping[int, Sequence[Variant]],
        include: frozenset[str],
    ) -> None:
        self._names: dict[str, int] = {}
        entries: list[tuple[int, int]] = []
        for number, node in nodes.items():
            if is_watched(node, include) and node.phase is not Phase.OPTIMIZER:
                entries += self._entries(node, variants.get(number, [Variant(-1, 0, 0)]))
        entries.sort()
        self._keys = np.array([key for key, _ in entries], np.uint64)
        self._parameters = np.array([parameter for _, parameter in entries], np.int64)
        self._found: list[Records] = []
        self._found_names: list[Integers] = []

    def _entries(self, node: Node, history: Sequence[Variant]) -> list[tuple[int, int]]:
        """For every slot that ever is a parameter: from which step on it is which one."""
        slots = {s for v in node.variants for s, source in enumerate(v) if is_weight(source)}
        # A step first uses a parameter in its first pass, whatever it does with the node later.
        first_of_step = {entry.step: entry.variant for entry in reversed(history)}
        return [
            (_key(node.id, slot, step), self._number(sources_in(node, variant), slot))
            for step, variant in first_of_step.items()
            for slot in slots
            if slot < _MAX_SLOT
        ]

    def _number(self, sources: Sequence[object], slot: int) -> int:
        source = sources[slot] if slot < len(sources) else None
        if not isinstance(source, Outside) or source.kind != "parameter":
            return -1
        return self._names.setdefault(source.name, len(self._names))

    def take(self, records: Records) -> None:
        """Keep those of some rows that are parameters."""
        if not len(self._keys):
            return
        inputs = records[(records["io"] == INPUT) & (records["slot"] < _MAX_SLOT)]
        node, slot = inputs["node"].astype(np.uint64), inputs["slot"].astype(np.uint64)
        step = (inputs["step"].astype(np.int64) + 2).astype(np.uint64)
        place = (node << np.uint64(_SLOT_BITS)) | slot
        keys = (place << np.uint64(_STEP_BITS)) | step
        at = np.searchsorted(self._keys, keys, "right") - 1
        same = (at >= 0) & ((self._keys[at] >> np.uint64(_STEP_BITS)) == place)
        parameters = np.where(same, self._parameters[at], -1)
        self._found.append(inputs[parameters >= 0])
        self._found_names.append(parameters[parameters >= 0])

    def weights(self) -> Weights:
        """What was kept, in order."""
        names = list(self._names)
        found = joined(self._found)
        return in_order(found, [names[n] for part in self._found_names for n in part.tolist()])


def _key(node: int, slot: int, step: int) -> int:
    return (((node << _SLOT_BITS) | slot) << _STEP_BITS) | (step + 2)


def change_by_rows(
    weights: Weights, watchpoint: Watchpoint, shapes: Sequence[tuple[int, ...] | None]
) -> dict[str, object]:
    """What rows alone tell of a change: not how far, but sometimes that there was one."""
    count = len(weights.records)
    missing = np.full(count, NO_VALUES, np.uint8)
    changed = surely_changed(weights, watchpoint)
    if watchpoint.condition.abbr == "WNC":
        missing[changed] = 0
    before = weights.previous
    reshaped = [before[i] >= 0 and shapes[i] != shapes[before[i]] for i in range(count)]
    missing[np.array(reshaped, bool)] = RESHAPED
    missing[before < 0] = NO_PREVIOUS
    unknown = np.full(count, np.nan)
    change = Change(unknown, unknown, changed.astype(np.float64), np.zeros(count, bool))
    return {"change": change, "missing": missing}


def surely_changed(weights: Weights, watchpoint: Watchpoint) -> NDArray[np.bool_]:
    """Where means or extremes are further apart than any change within the tolerances."""
    n = Numbers.of_records(weights.records)
    before = weights.previous
    rtol, atol = watchpoint.params.get("rtol", 0.0), watchpoint.params.get("atol", 0.0)
    slack = _ROUNDING * (n.mean_abs + n.mean_abs[before])
    with np.errstate(invalid="ignore"):
        moved = np.abs(n.mean - n.mean[before]) > atol + rtol * n.mean_abs[before] + slack
        for end in (n.max, n.min) if rtol < 1 else ():
            largest = np.maximum(np.abs(end), np.abs(end[before]))
            # What was the largest may be another element now, of at most this size before.
            size = (largest + atol) / (1 - rtol)
            moved |= np.abs(end - end[before]) > (atol + rtol * size) * (1 + _ROUNDING)
    finite = (n.bad == 0) & (n.bad[before] == 0)
    other_bad = (n.nan != n.nan[before]) | (n.posinf != n.posinf[before])
    other_bad |= n.neginf != n.neginf[before]
    changed: NDArray[np.bool_] = ((moved & finite) | other_bad) & (before >= 0)
    return changed

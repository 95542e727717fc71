"""The ends that NaN and Inf reach: a loss, a gradient about to be used, a parameter, state."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from opscope.calls import Calls
from opscope.events import LossRecord, Phase, StepRecord, UpdateFact
from opscope.judge.origin import walking
from opscope.judge.origin.birth import Place
from opscope.judge.origin.walking import BadSlots
from opscope.judge.origin.writing import (
    BUFFER,
    GRADIENT,
    PARAMETER,
    Written,
    gradient_chain,
    last_writes,
    may_write,
    written,
)


def ends(
    calls: Calls,
    bad: BadSlots,
    losses: Sequence[LossRecord],
    updates: Sequence[UpdateFact],
    ended: StepRecord | None,
) -> list[int]:
    """Return the calls in which something bad has arrived so far in a step.

    Where nothing is trained, what no operator reads on is what the script wanted.
    """
    withheld = ended is not None and ended.skipped
    found = [losses[index].call for index in used_losses(calls, losses, updates, ended)]
    for update in updates:
        writes = last_writes(calls, update.call) if update.gradients else {}
        found += (_call(writes.get(Written(GRADIENT, name))) for name in update.gradients)
    lasting = bad_lasting_values(calls, bad).items()
    kept = {what: place for what, place in lasting if what.kind != GRADIENT}
    found += (place[0] for what, place in kept.items() if not withheld or what.kind == BUFFER)
    if ended is not None and ended.complete and not _trains(calls):
        found += walking.leaves(calls, bad)
    return [call for call in found if call is not None and call in bad]


def _trains(calls: Calls) -> bool:
    return any(node.phase is Phase.BACKWARD for node in calls.nodes)


def bad_lasting_values(calls: Calls, bad: BadSlots) -> dict[Written, Place]:
    """Return what stays and is bad as it was last written, in that order."""
    found = {
        what
        for call, slots in bad.items()
        if may_write(calls.nodes[call])
        for slot in slots
        if (what := written(calls, call, slot)) is not None
    }
    if not found:
        return {}
    writes = last_writes(calls)
    places = sorted((writes[what], what) for what in found if what in writes)
    return {what: (c, s) for (c, s), what in places if s in bad.get(c, ())}


def used_losses(
    calls: Calls,
    losses: Sequence[LossRecord],
    updates: Sequence[UpdateFact] = (),
    ended: StepRecord | None = None,
) -> list[int]:
    """Return which losses that are not finite an update comes of, by their place.

    One whose gradients were cleared, or never used, belongs to a batch that was skipped.
    """
    wrong = [i for i, loss in enumerate(losses) if not math.isfinite(loss.value)]
    found = {index for update in updates for index in update.losses if index in wrong}
    if ended is not None and ended.complete:
        writes = _parameter_writes(calls) if wrong else {}
        found.update(i for i in wrong if not writes or _feeds(calls, losses, i, writes))
    return sorted(found)


def losses_before(calls: Calls, losses: Sequence[LossRecord], stepping: Iterable[str]) -> list[int]:
    """Return which losses that are not finite come into an update of these parameters now."""
    writes = {name: (len(calls.nodes),) for name in stepping}
    wrong = [i for i, loss in enumerate(losses) if not math.isfinite(loss.value)]
    return [index for index in wrong if _feeds(calls, losses, index, writes)]


def _call(place: Place | None) -> int | None:
    return None if place is None else place[0]


def _parameter_writes(calls: Calls) -> dict[str, list[int]]:
    """By parameter: the calls that change it."""
    found: dict[str, list[int]] = {}
    for call, node in enumerate(calls.nodes):
        if not node.op_type.endswith("_") or node.gradient_of:
            continue
        for slot in range(max(1, len(node.outputs))):
            what = written(calls, call, slot)
            if what is not None and what.kind == PARAMETER:
                found.setdefault(what.name, []).append(call)
    return found


def _feeds(
    calls: Calls, losses: Sequence[LossRecord], index: int, writes: Mapping[str, Collection[int]]
) -> bool:
    """Tell whether some gradient of a loss is part of what a parameter is updated with."""
    start = losses[index].call
    if start is None:
        return True
    later = [loss.call for loss in losses if loss.call is not None and loss.call > start]
    nodes = calls.nodes[: min(later, default=None)]
    made = {nodes[c].gradient_of: c for c in range(start, len(nodes)) if nodes[c].gradient_of}
    if not made:
        return True
    for name, call in made.items():
        for update in writes.get(name, ()):
            place = last_writes(calls, update).get(Written(GRADIENT, name))
            if place is not None and call in gradient_chain(calls, place, name):
                return True
    return False

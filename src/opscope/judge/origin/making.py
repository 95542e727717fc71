"""Finds the operator that made what came into a step: in a loader, or before the first step.

What a loader hands out, and what a network holds when it is first called, comes from outside, as it
has a name of its own there. If operators of this process made it, their rows are part of the step:
the value is known again by its numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import DATA_GRAPH, SETUP_GRAPH, Output
from opscope.judge.origin import operators, walking
from opscope.judge.origin.birth import Birth, Place, bad_of
from opscope.judge.origin.soundness import Soundness
from opscope.judge.selection import base_type
from opscope.stats.record import INPUT, OUTPUT, bad_among, taken

Records = NDArray[np.void]
_SAME = ("count", "nan", "posinf", "neginf", "zero", "min", "max")
"""The numbers of a value that do not depend on the order of its elements."""


def made_by(soundness: Soundness, birth: Birth) -> Birth | None:
    """Return where what came in with a birth was made of sound inputs, if that was seen."""
    row = soundness.row(birth.call, INPUT, birth.slot)
    if birth.entered is None or row is None:
        return None
    calls = soundness.calls
    rows = _bad_before(calls, soundness.records(), birth.call)
    made = {(int(each["call"]), int(each["slot"])): each for each in rows}
    ends = [place for place, each in made.items() if _is_same(each, row)]
    if not ends:
        return None
    slots: dict[int, list[int]] = {}
    for call, slot in made:
        slots.setdefault(call, []).append(slot)
    for place in sorted(walking.ancestors(calls, slots, max(ends)[0])):
        if _has_sound_inputs(soundness, place, made):
            return Birth(calls.nodes[place[0]], *place, bad_of(made[place]))
    return None


def _bad_before(calls: Calls, records: Records, end: int) -> Records:
    """The rows of bad outputs that were made before training began, in a step or at all."""
    earlier = records[(records["io"] == OUTPUT) & (records["call"] < end)]
    earlier = earlier[bad_among(earlier)]
    found = [_is_before_training(calls, int(r["call"]), int(r["slot"])) for r in earlier]
    return taken(earlier, np.array(found, bool))


def _is_before_training(calls: Calls, call: int, slot: int) -> bool:
    node = calls.nodes[call]
    unwritten = slot < len(node.outputs) and node.outputs[slot].uninitialised
    return node.graph in (SETUP_GRAPH, DATA_GRAPH) and not unwritten


def _is_same(one: np.void, other: np.void) -> bool:
    return all(one[name] == other[name] or _are_nan(one[name], other[name]) for name in _SAME)


def _are_nan(one: float, other: float) -> bool:
    return one != one and other != other


def _has_sound_inputs(soundness: Soundness, place: Place, made: dict[Place, np.void]) -> bool:
    """Tell whether an operator computed something, of inputs that are all known to be sound."""
    calls, call = soundness.calls, place[0]
    node, feeding = calls.nodes[call], walking.feeding(calls, call)
    if operators.is_transparent(node) or base_type(node) == operators.STORAGE:
        return False
    for slot, source in enumerate(calls.sources_of(call)):
        if isinstance(source, Output):
            if feeding[slot] in made or feeding[slot] is None:
                return False
            continue
        row = soundness.row(call, INPUT, slot)
        if row is None or bad_of(row).finite < bad_of(row).count:
            return False
    return True

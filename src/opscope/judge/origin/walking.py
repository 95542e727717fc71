"""Walking back over the edges of a step, from what is bad to what it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opscope.calls import Calls
from opscope.events import Output, Phase
from opscope.judge.origin.birth import Birth, Place

BadSlots = Mapping[int, Sequence[int]]
"""By call: those of its outputs that hold NaN or Inf."""


def feeding(calls: Calls, call: int) -> list[Place | None]:
    """Return by input slot of a call the output it is of, if it is one."""
    found: list[Place | None] = []
    for slot, source in enumerate(calls.sources_of(call)):
        place: Place | None = None
        if isinstance(source, Output):
            producer = calls.producer(call, slot)
            place = None if producer is None else (producer, source.slot)
        found.append(place)
    return found


def ancestors(calls: Calls, bad: BadSlots, call: int) -> list[Place]:
    """Return the bad values that a call's outputs come from, itself included."""
    seen: dict[Place, None] = {}
    todo: list[Place] = [(call, slot) for slot in bad.get(call, ())]
    while todo:
        place = todo.pop()
        if place in seen or place[1] not in bad.get(place[0], ()):
            continue
        seen[place] = None
        todo += (found for found in feeding(calls, place[0]) if found is not None)
    return list(seen)


def leading_to(
    calls: Calls, bad: BadSlots, births: Iterable[Birth], ends: Iterable[int]
) -> list[Birth]:
    """Return those of some births whose bad values went on to one of these calls."""
    passed = {call for end in ends for call, _ in ancestors(calls, bad, end)}
    return [birth for birth in births if birth.call in passed]


def differentiated(calls: Calls, faulty: Iterable[int]) -> list[int] | None:
    """Return those of some calls that the backward pass differentiates; None if there is none."""
    nodes = calls.nodes
    backward = [call for call, node in enumerate(nodes) if node.phase is Phase.BACKWARD]
    if not backward:
        return None
    of_training = {
        (forward.id, calls.pass_of(call))
        for call in backward
        if (forward := nodes[call].forward) is not None
    }
    return [call for call in faulty if (nodes[call].id, calls.pass_of(call)) in of_training]

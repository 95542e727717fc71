"""Walking back over the edges of a step, from what is bad to what it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opscope.calls import Calls
from opscope.events import Output
from opscope.judge.origin.birth import Birth, Place
from opscope.judge.origin.operators import is_transparent

_WRITES_BACK = 64
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
        place: Place | None = todo.pop()
        assert place is not None
        if place[1] not in bad.get(place[0], ()):
            place = next((p for p in behind(calls, place[0]) if p[1] in bad.get(p[0], ())), None)
        if place is None or place in seen:
            continue
        seen[place] = None
        todo += (found for found in feeding(calls, place[0]) if found is not None)
    return list(seen)


def leaves(calls: Calls, bad: BadSlots) -> list[int]:
    """Return the calls whose first output is bad, and read by no other that makes something."""
    read = {
        place[0]
        for call, node in enumerate(calls.nodes)
        if node.outputs
        for place in feeding(calls, call)
        if place is not None
    }
    return [call for call, slots in bad.items() if 0 in slots and call not in read]


def behind(calls: Calls, call: int) -> Iterator[Place]:
    """Yield what the rest of a tensor is of which a call wrote a part, the latest first."""
    for _ in range(_WRITES_BACK):
        view = _first(calls, call) if calls.nodes[call].op_type.endswith("_") else None
        base = None
        if view is not None and is_transparent(calls.nodes[view[0]]):
            base = _first(calls, view[0])
        if base is None:
            return
        yield base
        call = base[0]


def _first(calls: Calls, call: int) -> Place | None:
    """The output that the first input of a call is, if it is one."""
    found = feeding(calls, call)
    return found[0] if found else None


def leading_to(
    calls: Calls, bad: BadSlots, births: Iterable[Birth], ends: Iterable[int]
) -> list[Birth]:
    """Return those of some births whose bad values went on to one of these calls."""
    passed = {call for end in ends for call, _ in ancestors(calls, bad, end)}
    return [birth for birth in births if birth.call in passed]

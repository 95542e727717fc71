"""The connections between the calls of a step: who reads an output, and of what an input is made.

Both are found for all calls at once when they are first asked for, so that a condition may ask for
each of thousands of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from opscope.calls import Calls
from opscope.events import Output, Outside, Phase, Source
from opscope.judge.origin.walking import feeding

_NOTHING: frozenset[str] = frozenset()


def readers(calls: Calls, call: int) -> list[int]:
    """Return the later forward calls that read the first output of a call."""
    return list(_readers(calls, len(calls)).get(call, ()))


def comes_of(calls: Calls, call: int, slot: int) -> frozenset[str]:
    """Return of what kinds of things from outside the step an input comes."""
    sources = calls.sources_of(call)
    source = sources[slot] if slot < len(sources) else None
    return _kinds(calls, call, slot, source, _origins(calls, len(calls)))


@lru_cache(maxsize=1)
def _readers(calls: Calls, count: int) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for call in range(count):
        if calls.nodes[call].phase is Phase.FORWARD:
            for producer in {place[0] for place in feeding(calls, call) if place and not place[1]}:
                found.setdefault(producer, []).append(call)
    return found


@lru_cache(maxsize=1)
def _origins(calls: Calls, count: int) -> list[frozenset[str]]:
    """By call: the kinds of all that its outputs come of. A call reads what earlier ones made."""
    found: list[frozenset[str]] = []
    for call in range(count):
        kinds = _NOTHING
        for slot, source in enumerate(calls.sources_of(call)):
            kinds |= _kinds(calls, call, slot, source, found)
        found.append(kinds)
    return found


def _kinds(
    calls: Calls, call: int, slot: int, source: Source | None, origins: list[frozenset[str]]
) -> frozenset[str]:
    if isinstance(source, Outside):
        return frozenset((source.kind,))
    producer = calls.producer(call, slot) if isinstance(source, Output) else None
    return _NOTHING if producer is None else origins[producer]

"""Finds what outlives an operator: gradients, parameters, buffers and optimizer state it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opscope.calls import Calls
from opscope.events import Node, Output, Outside, Phase
from opscope.judge.origin.birth import Place
from opscope.judge.origin.operators import is_transparent

GRADIENT, PARAMETER, BUFFER, STATE = "gradient", "parameter", "buffer", "state"
_KEPT = (PARAMETER, BUFFER, STATE)
_FAR = 64
_CLEARING = ("zero_", "_foreach_zero_")


class Written(NamedTuple):
    """A value that stays: its kind, and the parameter or buffer it is of."""

    kind: str
    name: str


def written(calls: Calls, call: int, slot: int) -> Written | None:
    """Return what an output of a call stays as, if it does."""
    node = calls.nodes[call]
    if node.gradient_of:
        return Written(GRADIENT, node.gradient_of)
    found = _target(calls, call, slot)
    if found is None and node.phase is Phase.OPTIMIZER and _is_in_place(node, slot):
        name = node.outputs[slot].parameter if slot < len(node.outputs) else ""
        return Written(PARAMETER, name) if name else None
    return found


def last_writes(calls: Calls, until: int | None = None) -> dict[Written, Place]:
    """Return by what stays the last output that was written to it, before a call if one is given.

    A write that only clears has no place.
    """
    found: dict[Written, Place] = {}
    for call, node in enumerate(calls.nodes[:until]):
        if not may_write(node):
            continue
        for slot in range(max(1, len(node.outputs))):
            what = written(calls, call, slot)
            if what is not None:
                found[what] = call, slot
    return found


def may_write(node: Node) -> bool:
    """Return whether something of what a node makes may outlive its step."""
    return bool(node.gradient_of) or node.op_type.endswith("_") or _keeps_statistics(node)


def gradient_chain(calls: Calls, place: Place, name: str) -> Iterator[int]:
    """Yield the calls that have made up the gradient of a parameter, the latest first."""
    todo, seen = [place[0]], set[int]()
    while todo:
        call = todo.pop()
        if call in seen:
            continue
        seen.add(call)
        yield call
        if calls.nodes[call].op_type in _CLEARING:
            continue
        for slot, source in enumerate(calls.sources_of(call)):
            producer = calls.producer(call, slot)
            if producer is None or not isinstance(source, Output):
                continue
            if may_write(calls.nodes[producer]) and (
                written(calls, producer, source.slot) == Written(GRADIENT, name)
            ):
                todo.append(producer)


def _target(calls: Calls, call: int, slot: int) -> Written | None:
    """Return what an operator writes to in place, followed back to where it is known by name."""
    for _ in range(_FAR):
        node = calls.nodes[call]
        if node.gradient_of:
            return Written(GRADIENT, node.gradient_of)
        if is_transparent(node):
            slot = 0
        elif not _is_in_place(node, slot):
            return None
        sources = calls.sources_of(call)
        source = sources[slot] if slot < len(sources) else None
        if isinstance(source, Outside):
            return Written(source.kind, source.name) if source.kind in _KEPT else None
        producer = calls.producer(call, slot)
        if source is None or producer is None:
            return None
        call, slot = producer, source.slot
    return None


def _is_in_place(node: Node, slot: int) -> bool:
    if node.op_type.endswith("_"):
        return slot == 0 or node.op_type.startswith("_f")  # _foreach_, _fused_
    return slot in (3, 4) and _keeps_statistics(node)


def _keeps_statistics(node: Node) -> bool:
    """Tell whether a node is a batch norm, whose outputs 3 and 4 are its running statistics."""
    return "batch_norm" in node.op_type and "backward" not in node.op_type

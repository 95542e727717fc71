"""Where the elements of a value are: in a dump, or saved with a hit of a run."""

from __future__ import annotations

import bisect

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Output
from opscope.read.hit_values import hit_steps, value_at_hit
from opscope.read.value import Value
from opscope.views.rank_view import RankView

_BACK = 64
"""So many recorded steps are looked through for an earlier value."""


def value_in(
    view: RankView, node: Node, io: IO, slot: int, step: int, pass_number: int = 0
) -> Value | None:
    """A value of a step, with its elements if anything has them; None if it was not recorded.

    An input that was not recorded itself is the output that it comes from.
    """
    own = _recorded(view, node, io, slot, step, pass_number)
    if own is not None and own.is_saved:
        return own
    saved = saved_at_hit(view, node, io, slot, step)
    if saved is not None:
        return saved
    source = node.sources[slot] if io is IO.INPUT and slot < len(node.sources) else None
    if isinstance(source, Output):
        return value_in(view, source.node, IO.OUTPUT, source.slot, step, pass_number)
    return own


def step_before(view: RankView, node: Node, io: IO, slot: int, step: int) -> int | None:
    """The last step before whose value has elements."""
    steps = view.recorded_steps
    if not view.reader.is_run:
        end = bisect.bisect_left(steps, step)
        candidates = steps[max(0, end - _BACK) : end]
    else:
        candidates = [found for found in hit_steps(view.recorded.path) if found < step]
    for earlier in reversed(candidates):
        found = value_in(view, node, io, slot, earlier)
        if found is not None and found.is_saved:
            return earlier
    return None


def same_node(view: RankView, node: Node) -> Node | None:
    """The node of another rank that has the same name in the same graph."""
    for other in view.nodes.values():
        if other.name == node.name and other.graph == node.graph:
            return other
    return None


def _recorded(
    view: RankView, node: Node, io: IO, slot: int, step: int, pass_number: int
) -> Value | None:
    found = [
        value
        for value in view.recorded.values({node.id}, {step})
        if value.io == io and value.slot == slot
    ]
    in_pass = [value for value in found if (value.pass_number or 0) == pass_number]
    chosen = in_pass or found
    return chosen[-1] if chosen else None


def saved_at_hit(view: RankView, node: Node, io: IO, slot: int, step: int) -> Value | None:
    """A value that a run saved with a hit."""
    if not view.reader.is_run:
        return None
    try:
        return value_at_hit(view.recorded.path, view.rank, node, io, slot, step)
    except OpscopeError:
        return None

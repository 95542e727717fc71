"""One value of a step, with its elements if anything has them: a dump, or what a hit saved."""

from __future__ import annotations

import bisect

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Output
from opscope.messages import say_once
from opscope.read.hit_values import hit_steps, value_at_hit
from opscope.read.recording import RankReader
from opscope.read.value import Value

_BACK = 8
"""So many recorded steps are looked through for an earlier value."""


def find_value(
    rank: RankReader, node: Node, io: IO, slot: int, step: int, pass_number: int = 0
) -> Value | None:
    """A value of a step; None if nothing was recorded of it.

    An input that was not recorded itself is the output that it comes from.
    """
    own = _recorded(rank, node, io, slot, step, pass_number)
    if own is not None and own.is_saved:
        return own
    saved = saved_at_hit(rank, node, io, slot, step)
    if saved is not None:
        return saved
    source = node.sources[slot] if io is IO.INPUT and slot < len(node.sources) else None
    if isinstance(source, Output):
        return find_value(rank, source.node, IO.OUTPUT, source.slot, step, pass_number)
    return own


def step_before(rank: RankReader, node: Node, io: IO, slot: int, step: int) -> int | None:
    """The last step before in which the elements of a value are there."""
    steps = sorted(rank.recorded_steps)
    end = bisect.bisect_left(steps, step)
    saved = {found for found in hit_steps(rank.path) if found < step}
    for earlier in sorted({*steps[max(0, end - _BACK) : end], *saved}, reverse=True):
        found = find_value(rank, node, io, slot, earlier)
        if found is not None and found.is_saved:
            return earlier
    return None


def saved_at_hit(rank: RankReader, node: Node, io: IO, slot: int, step: int) -> Value | None:
    """A value that was saved with a hit."""
    try:
        return value_at_hit(rank.path, rank.number, node, io, slot, step)
    except OpscopeError as error:
        say_once(str(error))
        return None


def _recorded(
    rank: RankReader, node: Node, io: IO, slot: int, step: int, pass_number: int
) -> Value | None:
    found = [
        value for value in rank.values({node.id}, {step}) if value.io == io and value.slot == slot
    ]
    in_pass = [value for value in found if (value.pass_number or 0) == pass_number]
    chosen = in_pass or found
    return chosen[-1] if chosen else None

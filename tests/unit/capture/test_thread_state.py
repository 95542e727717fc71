"""What capture keeps per thread of a run that goes on for long."""

from __future__ import annotations

from typing import Any, cast

from opscope.capture.scopes import Scope
from opscope.capture.thread_state import KEPT_NUMBERS, ThreadState
from opscope.events import Node

PER_STEP = 100


def node(number: int) -> Node:
    """Stands for the node of an autograd number."""
    return cast(Node, number)


def test_a_long_run_keeps_the_latest_numbers_and_seldom_moves_them() -> None:
    state = ThreadState(Scope("Default", None, ""))
    base = state.number_base
    moved, longest = 0, 0
    for step in range(2 * 8 * KEPT_NUMBERS // PER_STEP):
        first = base + step * PER_STEP
        made = range(first, first + PER_STEP)
        cast(list[Any], state.node_of_number).extend(made)
        before = state.number_base
        state.forget_old_numbers()
        moved += state.number_base != before
        longest = max(longest, len(state.node_of_number))
        assert state.node_for(made[-1]) == node(made[-1])
        oldest_needed = max(base, made[-1] - 4 * KEPT_NUMBERS + 1)
        assert state.node_for(oldest_needed) == node(oldest_needed)
    assert state.number_base > base, "nothing was forgotten"
    assert longest <= 8 * KEPT_NUMBERS + PER_STEP
    assert moved <= 4, "moving them costs as much as a small step"

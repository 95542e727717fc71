"""The calls of a step: which pass each belongs to."""

from __future__ import annotations

from opscope.calls import Calls
from opscope.events import Node, Phase, Stack


def made(count: int, passes: list[int]) -> Calls:
    """A step of so many calls, with passes that begin at some of them."""
    node = Node(
        0, 0, "Default/add-op0", "add", "aten.add", "Default", "", Phase.FORWARD, Stack(0, ())
    )
    return Calls(
        load=lambda: ([node] * count, passes), count=count, pass_count=1 + len(passes) // 2
    )


def test_a_call_belongs_to_the_pass_that_began_last() -> None:
    calls = made(10, [3, 1, 7, 2])
    assert [calls.pass_of(call) for call in range(10)] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert calls.pass_among_several(3) == 1


def test_the_only_pass_of_a_step_is_not_named() -> None:
    calls = made(4, [])
    assert calls.pass_of(3) == 0
    assert calls.pass_among_several(3) is None

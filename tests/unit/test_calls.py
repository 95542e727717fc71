"""The calls of a step: which pass each belongs to."""

from __future__ import annotations

import itertools
import random
import weakref
from array import array

from hypothesis import given
from hypothesis import strategies as st

from opscope.calls import Calls, StepSeries, note_sources
from opscope.events import Node, Outside, Phase, Source, Stack


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


def fed_by(*numbers: int) -> list[Source]:
    return [Outside("parameter", f"p{number}") for number in numbers]


def a_node() -> Node:
    return Node(
        0, 0, "Default/add-op0", "add", "aten.add", "Default", "", Phase.FORWARD, Stack(0, ())
    )


def test_a_step_that_has_ended_keeps_its_sources_whatever_comes_later() -> None:
    steps, node, kept = StepSeries(), a_node(), []
    for number in (0, 0, 1, 1, 2, 0, 0):
        calls = steps.calls
        sources = fed_by(number)
        if sources != node.sources:
            note_sources(calls, len(calls), node, sources)
        calls.nodes.append(node)
        kept.append((calls, sources))
        for earlier, expected in kept:
            assert earlier.sources_of(0) == expected
        steps.begin_step()
    for earlier, expected in kept:
        assert earlier.sources_of(0) == expected


def test_an_old_step_that_is_kept_does_not_keep_those_after_it() -> None:
    steps, node = StepSeries(), a_node()
    first = steps.calls
    gone = []
    for number in range(3000):  # more than Python would call one inside the other
        if number % 100 == 0:
            note_sources(steps.calls, 0, node, fed_by(number))
        steps.calls.nodes.append(node)
        steps.begin_step()
        gone.append(weakref.ref(steps.calls))
    assert first.sources_of(0) == fed_by(0)
    assert [each() for each in gone[:-1]] == [None] * (len(gone) - 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12), st.randoms())
def test_the_variants_at_the_beginning_of_a_step(
    steps: list[tuple[int, int]], chance: random.Random
) -> None:
    """Native code tells of its calls later than Python does, so changes come in any order."""
    nodes = [
        Node(n, 0, f"n{n}", "add", "aten.add", "", "", Phase.FORWARD, Stack(0, ()))
        for n in range(4)
    ]
    for node in nodes:
        node.variants[:] = [fed_by(number) for number in range(4)]
    begun = {node.id: node.variant for node in nodes}
    calls = Calls()
    for call, (number, source) in enumerate(steps):
        if fed_by(source) != nodes[number].sources:
            note_sources(calls, call, nodes[number], fed_by(source))
    told = [tuple(calls.changes[at : at + 4]) for at in range(0, len(calls.changes), 4)]
    chance.shuffle(told)
    calls.changes = array("q", itertools.chain.from_iterable(told))
    changed = {node for _, node, _, _ in told}
    assert calls.variants_before() == {number: begun[number] for number in changed}

"""The sources of tensors: of new ones, of views, and of memory that was written to."""

from __future__ import annotations

import pytest

from opscope.capture.known import PythonKnownTensors
from opscope.events import Node, Output, Outside, Phase, Stack

WEIGHT = Outside("parameter", "weight", "weight")
ONE, VIEW, OTHER, STRANGER = range(4)


@pytest.fixture
def known() -> PythonKnownTensors:
    return PythonKnownTensors()


def output(number: int) -> Output:
    """An output of a node of its own."""
    node = Node(*(number, 0, "op", "op", "aten.op", "Default", ""), Phase.FORWARD, Stack(0, ()))
    return Output(node, 0)


def test_nothing_is_known_of_a_stranger(known: PythonKnownTensors) -> None:
    assert known.get(STRANGER) is None
    assert known.call_of(STRANGER) == -1


def test_a_tensor_comes_from_what_made_it(known: PythonKnownTensors) -> None:
    made = output(1)
    known.put(ONE, made, 7)
    known.put_outside(OTHER, WEIGHT)
    assert (known.get(ONE), known.call_of(ONE)) == (made, 7)
    assert (known.get(OTHER), known.call_of(OTHER)) == (WEIGHT, -1)
    known.drop(ONE)
    assert known.get(ONE) is None
    known.drop(ONE)


def test_a_write_is_the_source_of_all_that_shares_the_memory(known: PythonKnownTensors) -> None:
    made, viewed, written = output(1), output(2), output(3)
    known.put(ONE, made, 1)
    known.put_view(VIEW, ONE, made, viewed, 2)
    assert (known.get(ONE), known.get(VIEW)) == (made, viewed)
    known.put_write(VIEW, written, 3)
    assert (known.get(ONE), known.get(VIEW)) == (written, written)
    assert (known.call_of(ONE), known.call_of(VIEW)) == (3, 3)


def test_a_view_made_after_a_write_is_its_own_source(known: PythonKnownTensors) -> None:
    made, written, viewed = output(1), output(2), output(3)
    known.put(ONE, made, 1)
    known.put_write(ONE, written, 2)
    known.put_view(VIEW, ONE, written, viewed, 3)
    assert (known.get(ONE), known.get(VIEW)) == (written, viewed)
    again = output(4)
    known.put_write(ONE, again, 4)
    assert (known.get(ONE), known.get(VIEW)) == (again, again)


def test_a_view_makes_its_base_known(known: PythonKnownTensors) -> None:
    viewed = output(1)
    known.put_view(VIEW, ONE, WEIGHT, viewed, 1)
    assert (known.get(ONE), known.call_of(ONE)) == (WEIGHT, -1)


def test_a_write_to_a_stranger_makes_it_known(known: PythonKnownTensors) -> None:
    written = output(1)
    known.put_write(STRANGER, written, 5)
    assert (known.get(STRANGER), known.call_of(STRANGER)) == (written, 5)


def test_a_step_begins_with_what_lasts(known: PythonKnownTensors) -> None:
    known.put(ONE, output(1), 1)
    known.put_outside(OTHER, WEIGHT)
    known.put_write(OTHER, output(2), 2)
    known.restart({OTHER: WEIGHT})
    assert known.get(ONE) is None
    assert (known.get(OTHER), known.call_of(OTHER)) == (WEIGHT, -1)

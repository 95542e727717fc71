"""Passes: calls of the outermost module within a step."""

from __future__ import annotations

import pytest
from torch import nn

from opscope.calls import Calls
from opscope.capture.passes import Passes
from opscope.capture.scopes import Scope
from opscope.capture.thread_state import ThreadState
from opscope.events import Node, Phase, Stack

NETWORK, HEAD = nn.Linear(1, 1), nn.Linear(1, 1)


class Step:
    """A step that is told what is called in it."""

    def __init__(self) -> None:
        self.passes = Passes()
        self.state = ThreadState(Scope("Default", None, ""))
        self.calls = Calls()
        self.passes.begin_step()

    def enter(self, module: nn.Module, evaluates: bool = False) -> bool:
        return self.passes.enter(module, self.state, evaluates, self.calls)

    def operators(self, count: int) -> None:
        node = Node(*(0, 0, "op", "op", "aten.op", "Default", ""), Phase.FORWARD, Stack(0, ()))
        for _ in range(count):
            self.calls.nodes.append(node)


@pytest.fixture
def step() -> Step:
    return Step()


def test_a_pass_begins_when_a_network_is_called_again(step: Step) -> None:
    assert not step.enter(NETWORK)
    assert not step.enter(HEAD)
    assert step.passes.training.number == 0
    assert step.enter(NETWORK)
    assert step.passes.training.number == 1
    assert not step.enter(HEAD), "the same pass"
    assert step.enter(HEAD)
    assert step.passes.training.number == 2


def test_evaluation_has_passes_of_its_own(step: Step) -> None:
    step.enter(NETWORK)
    assert not step.enter(NETWORK, evaluates=True)
    assert step.enter(NETWORK, evaluates=True)
    assert (step.passes.training.number, step.passes.evaluation.number) == (0, 1)


def test_serials_are_never_used_again(step: Step) -> None:
    seen = []
    for _ in range(3):
        step.passes.begin_step()
        for _ in range(3):
            step.enter(NETWORK)
            seen.append(step.passes.training.serial)
            step.passes.end_backward(len(step.calls))
    assert len(seen) == len(set(seen))


def test_a_pass_has_what_ran_since_the_last_backward(step: Step) -> None:
    step.enter(NETWORK)
    step.operators(5)
    step.passes.end_backward(len(step.calls))
    step.operators(2)  # they make the next batch
    assert step.enter(NETWORK)
    step.operators(1)
    assert [step.calls.pass_of(call) for call in range(8)] == [0] * 5 + [1] * 3


def test_a_step_begins_with_the_first_pass(step: Step) -> None:
    step.enter(NETWORK)
    step.enter(NETWORK)
    step.passes.begin_step()
    assert step.passes.training.number == 0
    assert not step.enter(NETWORK)


def test_the_pass_of_an_autograd_node(step: Step) -> None:
    passes, state = step.passes, step.state
    first = passes.training.serial
    assert passes.of_number(None, 3) == (first, 0)
    state.pass_starts += [10, first + 5, 1, 20, first + 6, 2]
    assert passes.of_number(state, 25) == (first + 6, 2)
    assert passes.of_number(state, 12) == (first + 5, 1)
    assert passes.of_number(state, 3) == (first, 0), "before the second pass began"

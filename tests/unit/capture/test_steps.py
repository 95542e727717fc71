"""The clock of steps: told what happens, it says where steps end."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from opscope.capture.steps import _IDLE, _PATIENCE, StepClock
from opscope.messages import forget_said


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    forget_said()


class Ends(list[bool]):
    """The ends of steps: for each whether its update was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StepClock(self.append)


@pytest.fixture
def ends() -> Ends:
    return Ends()


def sgd(of: nn.Module | None = None) -> torch.optim.Optimizer:
    return torch.optim.SGD((of or nn.Linear(1, 1)).parameters(), lr=0.1)


def at(place: object) -> Callable[[], object]:
    return lambda: place


def test_a_step_ends_when_every_optimizer_has_stepped(ends: Ends) -> None:
    first, second = sgd(), sgd()
    ends.clock.add(first)
    ends.clock.add(second)
    ends.clock.stepped(first)
    ends.clock.stepped(first)
    assert ends == []
    ends.clock.stepped(second)
    assert ends == [False]
    assert ends.clock.has_optimizer and len(ends.clock.live()) == 2


def test_an_optimizer_that_is_gone_is_not_waited_for(ends: Ends) -> None:
    first, second = sgd(), sgd()
    ends.clock.add(first)
    ends.clock.add(second)
    del second
    ends.clock.stepped(first)
    assert ends == [False]


def test_an_optimizer_in_a_cycle_that_is_gone_is_not_waited_for(ends: Ends) -> None:
    first, second = sgd(), sgd()
    ends.clock.add(first)
    ends.clock.add(second)
    second.me = second
    del second
    ends.clock.stepped(first)
    assert ends == [False]


def test_optimizers_of_many_tasks_are_no_reason_to_collect_garbage_each_time(ends: Ends) -> None:
    """A collection takes longer than most tasks do."""
    outer = sgd()
    ends.clock.add(outer)
    collected: list[str] = []
    gc.collect()
    gc.disable()
    gc.callbacks.append(lambda phase, info: collected.append(phase) if phase == "start" else None)
    try:
        for _ in range(200):
            inner = sgd()
            ends.clock.add(inner)
            ends.clock.stepped(inner)
            ends.clock.stepped(outer)
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert len(ends) == 200
    assert len(collected) < 10


def test_an_optimizer_of_the_same_parameters_is_not_waited_for(ends: Ends) -> None:
    layer = nn.Linear(1, 1)
    first, second = sgd(layer), sgd(layer)
    ends.clock.add(first)
    ends.clock.add(second)
    ends.clock.stepped(second)
    assert ends == [False]


def test_an_optimizer_that_another_has_followed_is_left_if_it_has_no_new_gradients(
    ends: Ends,
) -> None:
    """As in a notebook, where a cell that was interrupted is run again."""
    networks = nn.Linear(1, 1), nn.Linear(1, 1)
    first, second = map(sgd, networks)
    ends.clock.add(first)
    networks[0](torch.ones(1)).backward()
    ends.clock.stepped(first)
    ends.clock.add(second)
    for _ in range(3):
        networks[1](torch.ones(1)).backward()
        ends.clock.stepped(second)
    assert len(ends) == 4


def test_an_optimizer_that_another_joins_is_waited_for(ends: Ends) -> None:
    networks = nn.Linear(1, 1), nn.Linear(1, 1)
    first, second = map(sgd, networks)
    ends.clock.add(first)
    ends.clock.stepped(first)
    ends.clock.add(second)
    for step in range(3):
        networks[1](networks[0](torch.ones(1))).backward()
        ends.clock.stepped(second)
        assert len(ends) == 1 + step
        ends.clock.stepped(first)
    assert len(ends) == 4


def test_a_step_inside_another_ends_nothing(ends: Ends) -> None:
    inner = sgd()
    ends.clock.stepped(inner, inside_another=True)
    assert ends == []


def test_an_idle_optimizer_is_given_up_once(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    busy, idle = sgd(), torch.optim.Adam(nn.Linear(1, 1).parameters())
    ends.clock.add(busy)
    ends.clock.add(idle)
    for _ in range(_PATIENCE + 3):
        ends.clock.stepped(busy)
    assert len(ends) == 4
    told = capsys.readouterr().err
    assert told.count(f"Adam has not stepped while SGD made {_PATIENCE} steps") == 1


def test_a_step_that_a_scaler_skips(ends: Ends) -> None:
    optimizer = sgd()
    ends.clock.add(optimizer)
    ends.clock.scaler_stepped(optimizer)
    ends.clock.scaler_updated()
    assert ends == [True]
    ends.clock.scaler_stepped(optimizer)
    ends.clock.stepped(optimizer)
    ends.clock.scaler_updated()
    assert ends == [True, False], "one that stepped was not skipped"


def test_the_script_may_say_itself_where_steps_end(ends: Ends) -> None:
    optimizer = sgd()
    ends.clock.add(optimizer)
    ends.clock.mark()
    ends.clock.stepped(optimizer)
    ends.clock.network_called(at(1), True)
    ends.clock.backward_ended()
    ends.clock.network_called(at(1), True)
    assert ends == [False]
    assert not ends.clock.is_whole


def test_without_an_optimizer_a_call_after_backward_begins_a_step(ends: Ends) -> None:
    ends.clock.network_called(at(1), True)
    assert not ends.clock.trains_nothing_yet
    ends.clock.backward_ended()
    assert ends.clock.is_whole and not ends.clock.awaits_forward
    ends.clock.network_called(at(2), True)
    assert ends == [False]


def test_without_a_backward_a_call_from_the_same_place_begins_a_step(ends: Ends) -> None:
    ends.clock.network_called(at(1), False)
    ends.clock.network_called(at(2), False)
    assert ends == [] and ends.clock.trains_nothing_yet and ends.clock.is_whole
    ends.clock.network_called(at(1), False)
    assert ends == [False]


def test_without_networks_the_next_forward_begins_a_step(ends: Ends) -> None:
    ends.clock.forward_began()
    assert ends == []
    ends.clock.backward_ended()
    assert ends.clock.awaits_forward
    ends.clock.forward_began()
    assert ends == [False] and ends.clock.trains_nothing_yet


def test_optimizers_that_never_step_are_told_of(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer, idle = sgd(), []
    ends.clock.add(optimizer)
    ends.clock.on_idle = lambda: idle.append(True)
    for _ in range(_IDLE + 2):
        ends.clock.network_called(at(1), True)
        ends.clock.backward_ended()
    assert idle == [True]
    assert "is optimizer.step() missing?" in capsys.readouterr().err
    assert len(ends) == 2, "from here on calls of the network count"


def test_an_optimizer_of_a_thread_that_has_ended_is_not_waited_for(ends: Ends) -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    pretraining, training = sgd(first), sgd(second)

    def pretrain() -> None:
        ends.clock.add(pretraining)
        for _ in range(2):
            first(torch.ones(1, 1)).sum().backward()
            ends.clock.stepped(pretraining)

    thread = threading.Thread(target=pretrain)
    thread.start()
    thread.join()
    ends.clock.add(training)
    for _ in range(3):
        second(torch.ones(1, 1)).sum().backward()
        ends.clock.stepped(training)
    assert len(ends) == 5


def test_threads_may_make_optimizers_while_others_step(ends: Ends) -> None:
    failed: list[Exception] = []
    many = [sgd() for _ in range(200)]  # to go through them takes a while
    for each in many:
        ends.clock.add(each)

    def train() -> None:
        try:
            for _ in range(50):
                optimizer = sgd()
                ends.clock.add(optimizer)
                for _ in range(3):
                    ends.clock.stepped(optimizer)
        except Exception as error:  # noqa: BLE001 - that is what this is about
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []

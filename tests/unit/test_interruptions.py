"""Handlers of signals wait while code of ours runs that must not be left half done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from opscope import interruptions
from opscope.interruptions import hand_over, hear_at_once, postpone_handlers, uninterrupted

NUMBER = signal.SIGUSR2


class TimeIsUpError(Exception):
    """What a script's handler raises."""


def raises(number: int, frame: FrameType | None) -> None:
    raise TimeIsUpError(number)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    postpone_handlers()
    try:
        yield
    finally:
        hear_at_once()
        signal.signal(NUMBER, before)
    assert not interruptions._waiting


def test_a_handler_waits_until_the_work_is_done() -> None:
    signal.signal(NUMBER, raises)
    done = []

    @uninterrupted
    def inner() -> None:
        os.kill(os.getpid(), NUMBER)
        done.append("inner")

    @uninterrupted
    def work() -> None:
        inner()
        try:
            done.append("outer")
        except TimeIsUpError:
            done.append("swallowed")

    with pytest.raises(TimeIsUpError):
        work()
    assert done == ["inner", "outer"]


def test_elsewhere_it_is_called_at_once() -> None:
    signal.signal(NUMBER, raises)
    with pytest.raises(TimeIsUpError):
        os.kill(os.getpid(), NUMBER)


def test_several_handlers_are_called_in_turn_and_get_their_signals() -> None:
    heard: list[int] = []
    other = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    signal.signal(NUMBER, lambda number, frame: heard.append(number))

    @uninterrupted
    def work() -> int:
        os.kill(os.getpid(), NUMBER)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard == []
        return 5

    try:
        assert work() == 5
    finally:
        signal.signal(signal.SIGUSR1, other)
    assert heard == [NUMBER, signal.SIGUSR1]


def test_what_was_raised_inside_an_operator_waits_as_well() -> None:
    @uninterrupted
    def work() -> str:
        hand_over(TimeIsUpError())
        return "done"

    with pytest.raises(TimeIsUpError):
        work()
    with pytest.raises(TimeIsUpError):
        hand_over(TimeIsUpError())


def test_a_script_gets_back_the_handlers_that_it_has_set() -> None:
    signal.signal(NUMBER, raises)
    assert signal.getsignal(NUMBER) is raises
    assert signal.signal(NUMBER, signal.SIG_DFL) is raises
    assert signal.getsignal(NUMBER) is signal.SIG_DFL
    signal.signal(NUMBER, raises)
    hear_at_once()
    try:
        assert signal.getsignal(NUMBER) is raises
    finally:
        postpone_handlers()
    assert signal.getsignal(NUMBER) is raises
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_wrappers_of_others_stay_and_are_not_called_twice() -> None:
    ours, called = signal.signal, []

    def wrapper(number: int, handler: object) -> object:
        called.append(number)
        return ours(number, handler)  # type: ignore[arg-type]

    signal.signal = wrapper  # type: ignore[assignment]
    try:
        for _ in range(2):
            hear_at_once()
            postpone_handlers()
        signal.signal(NUMBER, raises)
        assert called == [NUMBER] and signal.getsignal(NUMBER) is raises
    finally:
        signal.signal = ours

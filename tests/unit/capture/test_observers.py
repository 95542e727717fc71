"""Observers, and functions that are wrapped while somebody watches."""

from __future__ import annotations

from types import SimpleNamespace

from opscope.capture.observers import Observers
from opscope.capture.patches import Patches


def test_observers_are_told_in_turn() -> None:
    told: list[str] = []
    observers: Observers[[int]] = Observers()
    assert not observers
    observers(1)

    def first(number: int) -> None:
        told.append(f"first {number}")

    observers.add(first)
    observers.add(lambda number: told.append(f"second {number}"))
    assert observers
    observers(2)
    observers.remove(first)
    observers(3)
    assert told == ["first 2", "second 2", "second 3"]


def test_an_observer_may_leave_while_it_is_told() -> None:
    told: list[str] = []
    observers: Observers[[]] = Observers()

    def once() -> None:
        told.append("once")
        observers.remove(once)

    observers.add(once)
    observers.add(lambda: told.append("always"))
    observers()
    observers()
    assert told == ["once", "always", "always"]


def test_a_wrapper_makes_room_when_it_is_over() -> None:
    def work(x: int) -> int:
        """Do it."""
        return x + 1

    owner, patches = SimpleNamespace(work=work), Patches()
    patches.wrap(owner, "work", lambda original: lambda x: 10 * original(x))
    assert owner.work(1) == 20
    assert owner.work.__doc__ == "Do it."
    patches.undo()
    assert owner.work is work


def test_a_wrapper_that_others_have_wrapped_only_hands_on() -> None:
    owner, patches = SimpleNamespace(work=lambda x: x + 1), Patches()
    patches.wrap(owner, "work", lambda original: lambda x: 10 * original(x))
    inner = owner.work
    owner.work = lambda x: -inner(x)
    assert owner.work(1) == -20
    patches.undo()
    assert owner.work(1) == -2, "the wrapper of somebody else is still there"


def test_wrappers_are_taken_off_in_reverse() -> None:
    owner, patches = SimpleNamespace(work=lambda: "plain"), Patches()
    original = owner.work
    for mark in "ab":
        patches.wrap(owner, "work", lambda inner, mark=mark: lambda: f"{mark}{inner()}")
    assert owner.work() == "baplain"
    patches.undo()
    assert owner.work is original

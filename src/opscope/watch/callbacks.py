"""Functions of the person that are told of every hit."""

from __future__ import annotations

from collections.abc import Callable

from opscope.judge.hits import Hit
from opscope.messages import say_once

OnHit = Callable[[Hit], object]
_registered: list[OnHit] = []


def add(callback: OnHit) -> None:
    """Call this with each hit from now on."""
    if callback not in _registered:
        _registered.append(callback)


def remove(callback: OnHit) -> None:
    """Call this no longer."""
    if callback in _registered:
        _registered.remove(callback)


def tell(hit: Hit) -> None:
    """Call all of them; one that raises neither ends training nor keeps others from being told."""
    for callback in tuple(_registered):
        _call(callback, hit)


def _call(callback: OnHit, hit: Hit) -> None:
    try:
        callback(hit)
    except Exception as error:  # noqa: BLE001 - the person's function must not end training
        say_once(f"a function registered by opscope.on_hit raised {type(error).__name__}: {error}")

"""Telling whoever wants to know: as many as like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Observers(Generic[P]):
    """Callables that are called in the order in which they came."""

    def __init__(self) -> None:
        self._all: tuple[Callable[P, None], ...] = ()

    def add(self, observer: Callable[P, None]) -> None:
        """Call this too, from now on."""
        self._all = (*self._all, observer)

    def remove(self, observer: Callable[P, None]) -> None:
        """Do not call this any more; a call under way goes to it yet."""
        self._all = tuple(each for each in self._all if each != observer)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for observer in self._all:
            observer(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self._all)

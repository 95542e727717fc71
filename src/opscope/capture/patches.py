"""Functions of torch and the standard library that are wrapped while capture is on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class Patches:
    """Wraps functions where they are, composing with whatever others have put or will put there.

    When it is over, a wrapper that is still in its place makes room for what it wraps. One that
    somebody else has wrapped meanwhile stays where it is and only hands calls on.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self.active = True
        """False when it is over."""

    def set(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace `owner.name`, which must only hand calls on when it is over."""
        self._undo.append((owner, name, getattr(owner, name), replacement))
        setattr(owner, name, replacement)

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Have `wrapper(original)` called in the place of `owner.name`, as long as this lasts."""
        original = getattr(owner, name)
        wrapped = wrapper(original)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (wrapped if self.active else original)(*args, **kwargs)

        self.set(owner, name, call)

    def undo(self) -> None:
        """Put everything back, except what someone else has replaced since."""
        self.active = False
        for owner, name, original, replacement in reversed(self._undo):
            current = getattr(owner, name)
            if getattr(current, "__func__", current) is replacement:
                setattr(owner, name, original)
        self._undo.clear()

"""Descriptors that a forked child must not keep open, such as locks and pipes."""

from __future__ import annotations

import contextlib
import os

_owned: set[int] = set()


def own(descriptor: int) -> int:
    """Have this descriptor closed in children that are forked from now on."""
    _owned.add(descriptor)
    return descriptor


def close(descriptor: int) -> None:
    """Close an owned descriptor, once."""
    if descriptor in _owned:
        _owned.discard(descriptor)
        os.close(descriptor)


def _close_in_child() -> None:
    while _owned:
        with contextlib.suppress(OSError):
            os.close(_owned.pop())


os.register_at_fork(after_in_child=_close_in_child)

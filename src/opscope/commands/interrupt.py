"""Ctrl-C while native code computes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def interruptible(compute: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """Return what `compute` returns; Ctrl-C calls `interrupt`, which ends it.

    Python hears of Ctrl-C between two of its own instructions only, and in the main thread: so
    that one waits, and another one computes.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(compute)
        try:
            return future.result()
        except KeyboardInterrupt:
            interrupt()
            raise

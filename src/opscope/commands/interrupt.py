"""Ctrl-C: heard while native code computes, and where a library would swallow it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TypeVar

from opscope.errors import INTERRUPTED, InterruptedByPersonError
from opscope.messages import say

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


@contextlib.contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt for every Ctrl-C of the block, at its end if nothing came of it.

    torch drops whatever is raised while it looks for NumPy, and Python what is raised in a
    callback of its garbage collector: the person would have to press once more.
    """
    has_come: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        has_come.append(number)
        if _is_importing(frame):
            _leave()  # of a module that is half there nothing can be said to raise on
        raise KeyboardInterrupt

    with _handled_by(hear):
        yield
        if has_come:
            raise KeyboardInterrupt


@contextlib.contextmanager
def ended_in_a_line() -> Iterator[None]:
    """Make of a Ctrl-C an error that is said in one line, without a traceback of ours."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedByPersonError from None


@contextlib.contextmanager
def _handled_by(hear: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function called for Ctrl-C, unless somebody else, or nobody, is to hear of it."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_importing(frame: FrameType | None) -> bool:
    """Tell whether a module is being loaded."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave() -> None:
    """End this process at once, in one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one line is on its way
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    say("interrupted")
    os._exit(INTERRUPTED)

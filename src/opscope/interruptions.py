"""Handlers of signals that a script has set, which Python calls wherever it happens to be.

A handler that raises, such as one for a time-out, or that of a DataLoader whose worker has died,
means the script and not us. While code of ours runs that must not be left half done, handlers
wait until it has: then they are called, and what they raise goes to the script from there.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_whole: set[CodeType] = set()
"""The code of functions that are not to be left half done."""
_waiting: deque[tuple[Callable[[int, FrameType | None], Any], int]] = deque()
"""Handlers to be called, and their signals."""
_users = 0
"""The number of those that want handlers to wait."""


def uninterrupted(function: Callable[P, R]) -> Callable[P, R]:
    """Have handlers wait until this function, which must not wait for anybody, has returned."""
    return _uninterrupted(function, None)


def forgiving(
    report: Callable[[Exception], None],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Do the same to a function, and have what fails in it reported; training goes on."""
    return lambda function: _uninterrupted(function, report)


def _uninterrupted(
    function: Callable[P, R], report: Callable[[Exception], R] | None
) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if report is None or is_of_script(error):
                raise
            return report(error)
        finally:
            if _waiting:
                _call_waiting(sys._getframe(1))

    never_left(function)
    never_left(call)
    return call


def never_left(function: Callable[P, R]) -> Callable[P, R]:
    """Have handlers wait while this function runs, and until one of the above has returned.

    For what native code calls where nothing can be raised.
    """
    code: CodeType = function.__code__
    _whole.add(code)
    return function


def hand_over(error: BaseException) -> None:
    """Raise what a handler has raised inside an operator, where nothing can be raised.

    Where code of ours runs just then, it is raised when that is done.
    """
    if not _is_inside(sys._getframe(1)):
        raise error

    def again(number: int, frame: FrameType | None) -> None:
        raise error

    _waiting.append((again, 0))


def postpone_handlers() -> None:
    """From here on handlers wait where they have to; to be called once for each `hear_at_once`."""
    global _users, _next_set, _next_get, _is_in_place
    _users += 1
    if _users == 1:
        if not _is_in_place:
            _next_set, _next_get, _is_in_place = signal.signal, signal.getsignal, True
            signal.signal, signal.getsignal = _set, _get
        _replace_all(lambda handler: _Postponed(handler) if _is_of_script(handler) else handler)


def hear_at_once() -> None:
    """Leave handlers as the script has set them, unless somebody else wants them to wait."""
    global _users, _is_in_place
    _users -= 1
    if _users == 0:
        _replace_all(_plain)
        if signal.signal is _set and signal.getsignal is _get:  # or somebody has wrapped them
            signal.signal, signal.getsignal = _next_set, _next_get
            _is_in_place = False


def is_of_script(error: BaseException) -> bool:
    """Tell whether the handler of a signal has raised this."""
    trace, handlers = error.__traceback__, _handlers()
    while trace is not None and handlers:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


class _Postponed:
    """A handler that waits where it has to."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        if _is_inside(frame):
            _waiting.append((self.handler, number))
            return None
        return self.handler(number, frame)


def _is_inside(frame: FrameType | None) -> bool:
    """Tell whether a frame belongs to what is not to be left half done.

    It is looked for rather than counted, as an exception may come between any two instructions.
    """
    while frame is not None:
        if frame.f_code in _whole:
            return True
        frame = frame.f_back
    return False


def _call_waiting(frame: FrameType) -> None:
    if threading.current_thread() is not threading.main_thread() or _is_inside(frame):
        return
    while _waiting:
        handler, number = _waiting.popleft()
        handler(number, frame)


_plain_set, _plain_get = signal.signal, signal.getsignal
_next_set, _next_get = _plain_set, _plain_get
"""The functions that were in the place of ours: others may have wrapped Python's, too."""
_is_in_place = False
"""True once ours are in their place, or in that of others who have wrapped them since."""


@functools.wraps(_plain_set)
def _set(signalnum: Any, handler: Any) -> Any:
    if _users and _is_of_script(handler):
        handler = _Postponed(handler)
    return _plain(_next_set(signalnum, handler))


@functools.wraps(_plain_get)
def _get(signalnum: Any) -> Any:
    return _plain(_next_get(signalnum))


def _plain(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _Postponed) else handler


def _is_of_script(handler: Any) -> bool:
    """Tell whether a script has made a handler; that of Ctrl-C ends the script wherever it is."""
    return callable(handler) and handler is not signal.default_int_handler


def _replace_all(replacement: Callable[[Any], Any]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # only there can they be set
    for number in signal.valid_signals():
        handler = _plain_get(number)
        other = replacement(handler)
        if other is not handler:
            _plain_set(number, other)


def _handlers() -> set[CodeType]:
    """The code of all handlers that are set."""
    found = (_code_of(_get(number)) for number in signal.valid_signals())
    return {code for code in found if code is not None}


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, of a method, or of an object that can be called."""
    inner = getattr(handler, "func", handler)  # of functools.partial
    for function in (inner, vars(type(inner)).get("__call__")):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None

"""Ends training on a hit: as `sys.exit(3)` does, or at a prompt what was typed there and no more.

Wherever it surfaces the person has read the verdict, and needs no traceback of ours.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from traceback import clear_frames
from types import TracebackType
from typing import NoReturn

from opscope.errors import HIT
from opscope.messages import say, say_once

_WHY = "a hit has ended training; the verdict is above"


class TrainingStopped(BaseException):
    """Raised at a prompt and in notebooks, which SystemExit would end or confuse."""

    def __init__(self) -> None:
        super().__init__(_WHY)

    def _render_traceback_(self) -> list[str]:
        """Return the line that IPython prints for a traceback; end watching with what was typed."""
        _end_session()
        return [f"opscope: {self}"]


_on_end: list[Callable[[], None]] = []


def when_ended_at_prompt(end_session: Callable[[], None]) -> None:
    """Have only this called where a hit has ended what was typed at a prompt or in a cell."""
    _on_end[:] = [end_session]


def _end_session() -> None:
    for end in _on_end:
        end()


def end_training() -> NoReturn:
    """Raise what ends the script, or this thread of it."""
    if threading.current_thread() is not threading.main_thread():
        name = threading.current_thread().name
        say_once(f"the hit ends training in thread {name}, by SystemExit", f"ends:{name}")
    elif _at_prompt():
        _show_one_line()
        raise TrainingStopped
    # Exactly SystemExit: threads and debuggers are silent about that, not about subclasses.
    error = SystemExit(HIT)
    error.add_note(f"opscope: {_WHY}")
    _quiet_asyncio()
    raise error


def is_ending(error: BaseException | None) -> bool:
    """Tell whether an exception is one that `end_training` has raised."""
    if isinstance(error, TrainingStopped):
        return True
    return isinstance(error, SystemExit) and any(_WHY in n for n in getattr(error, "__notes__", ()))


def _at_prompt() -> bool:
    """Tell whether a person types, or will do so after the script (`python -i`)."""
    return hasattr(sys, "ps1") or bool(sys.flags.inspect)


def let_go_at_prompt() -> None:
    """Let go of what the last exception at a prompt keeps alive in functions that it has ended.

    An optimizer in there is none that training goes on with, and would be waited for.
    """
    error = getattr(sys, "last_value", None) if _at_prompt() else None
    while isinstance(error, BaseException):
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _show_one_line() -> None:
    """Have Python print a line for TrainingStopped; IPython does so by itself."""
    hook = sys.excepthook
    if getattr(hook, "of_opscope", False):
        return

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, TrainingStopped):
            say(str(error))
            _end_session()
        else:
            hook(kind, error, traceback)

    show.of_opscope = True  # type: ignore[attr-defined]
    sys.excepthook = show


def _quiet_asyncio() -> None:
    """Keep asyncio from logging a traceback of ours if nobody awaits the task that ends."""
    if "asyncio" in sys.modules:
        logging.getLogger("asyncio").addFilter(_is_no_ending)


def _is_no_ending(record: logging.LogRecord) -> bool:
    return not (record.exc_info and is_ending(record.exc_info[1]))

"""Telling apart what fails in our code, and what a script raises while our code runs.

Python calls the handlers of signals wherever it happens to be. A handler that raises, such as one
for a time-out, or that of a DataLoader whose worker has died, means the script and not us.
"""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any


def is_of_script(error: BaseException) -> bool:
    """Tell whether the handler of a signal has raised this."""
    trace, handlers = error.__traceback__, _handlers()
    while trace is not None and handlers:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _handlers() -> set[CodeType]:
    """The code of all handlers that are set."""
    found = (_code_of(signal.getsignal(number)) for number in signal.valid_signals())
    return {code for code in found if code is not None}


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, of a method, or of an object that can be called."""
    inner = getattr(handler, "func", handler)  # of functools.partial
    for function in (inner, vars(type(inner)).get("__call__")):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None

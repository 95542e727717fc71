"""Ctrl-C in the first and the last moments of the program `opscope`: it is gone, without a word.

Python would show a traceback of whatever it was just importing, or ending.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys


def is_program() -> bool:
    """Tell whether Python was started as `opscope` or `python -m opscope`."""
    if os.path.basename(sys.argv[0] if sys.argv else "") == "opscope":  # noqa: PTH119 - quick
        return True
    return any(pair == ("-m", "opscope") for pair in itertools.pairwise(sys.orig_argv))


def end_quietly() -> None:
    """Have Ctrl-C end this process at once, if Python would make an exception of it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def hear_again() -> None:
    """Have Python make an exception of Ctrl-C again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_own_program() -> bool:
    """Tell whether it is ours alone: a script of somebody may be called `opscope` as well."""
    beside = os.path.dirname(sys.executable)  # noqa: PTH120
    return is_program() and (
        sys.argv[0] == "-m" or os.path.dirname(sys.argv[0]) == beside  # noqa: PTH120
    )


if _is_own_program():
    end_quietly()

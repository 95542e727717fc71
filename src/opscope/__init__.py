"""opscope: the debugger for training neural networks.

`opscope run train.py` needs no change to a script. From code or a notebook::

    import opscope

    with opscope.start(dump="data_dump.json"):
        train()
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from opscope.read.reader import Reader
    from opscope.session import Session
    from opscope.watch.hits import Hit
    from opscope.watch.watchpoint import Watchpoint

from opscope.settings.context import set_context

__all__ = [
    "__version__",
    "add_watchpoint",
    "on_hit",
    "open",
    "set_context",
    "set_dump",
    "start",
    "step",
    "stop",
]


def start(
    dump: str | os.PathLike[str] | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    steps: str | None = None,
    every: int | None = None,
    scope: str | None = None,
    include: str | None = None,
    budget: str | int | None = None,
    keep_runs: int | None = None,
    watch: str | None = None,
    on_hit: str | None = None,
    on_hit_kinds: str | None = None,
    quick: bool = False,
    strict: bool = False,
    save_state: str | int | None = None,
    record: bool | None = None,
    page: bool | None = None,
) -> Session:
    """Watch this process from here on; the arguments are the options of `opscope run`.

    Returns the session, which is also a context manager that stops at the end of its block.
    """
    flags: dict[str, object] = {
        "dump": None if dump is None else os.fspath(dump),
        "run_dir": None if run_dir is None else os.fspath(run_dir),
        "steps": steps,
        "every": every,
        "scope": scope,
        "include": include,
        "budget": budget,
        "keep_runs": keep_runs,
        "watch": watch,
        "on_hit": on_hit,
        "on_hit_kinds": on_hit_kinds,
        "quick": quick,
        "strict": strict,
        "save_state": "none" if save_state == 0 else save_state,
        "record": record is True,
        "no_record": record is False,
        "no_page": page is False,
    }
    return _start(flags)


def _start(flags: Mapping[str, object]) -> Session:
    from opscope.session import Session, begin
    from opscope.settings.run import load_run_settings

    settings = load_run_settings(flags, os.environ, Path.cwd(), source="opscope.start")
    script = sys.argv[0] if sys.argv and sys.argv[0] else "python"
    return begin(lambda: Session(settings, script, sys.argv))


def stop() -> None:
    """End the session and finish its files; nothing happens if there is none."""
    from opscope.session import current_session

    session = current_session()
    if session is not None:
        session.stop()


def step() -> None:
    """Say that a training step ends here; from the first call on, steps are counted by hand."""
    from opscope.session import current_session

    session = current_session()
    if session is not None and session.capture is not None:
        session.capture.mark_step()


def add_watchpoint(condition: str, **parts: Any) -> Watchpoint:
    """Set a watchpoint while training runs: a condition, its parameters, what it selects.

    >>> opscope.add_watchpoint("GL", max_gt=100.0, scope="*/head-*", name="head")  # doctest: +SKIP
    """
    from opscope.messages import say_once
    from opscope.session import current_session
    from opscope.watch.watchpoint import make

    made = make(condition, **parts)
    session = current_session()
    if session is None or session.watch is None:
        say_once("nothing is being watched here: the watchpoints of this script are not checked")
        return made
    return session.watch.watch.add(made)


def on_hit(callback: Callable[[Hit], object]) -> None:
    """Have a function called with every hit, in the training process."""
    from opscope.watch import callbacks

    callbacks.add(callback)


def set_dump(target: Any, enabled: bool = True) -> None:
    """Mark a module with all inside it, an optimizer, or an operator for a dump with `dump_mode` 2.

    Forward and backward belong together. It may be called at any time; `enabled=False` takes a
    mark off, also from a part of what is marked.
    """
    from opscope.dump.selection.marks import marks
    from opscope.session import current_session

    marks.set(target, enabled)
    session = current_session()
    if session is not None:
        session.marks_changed()


def open(path: str | os.PathLike[str]) -> Reader:
    """A run or a dump: its ranks, steps, nodes and values, and checks on them.

    `path` is a directory, or for a run its name, the start of it, or "last".

    >>> run = opscope.open("last")  # doctest: +SKIP
    >>> run.check("TO; WCL").hits  # doctest: +SKIP
    """
    from opscope.read.reader import open_reader

    return open_reader(os.fspath(path))


def _is_program() -> bool:
    """Whether Python was started as `opscope` or `python -m opscope`."""
    if Path(sys.argv[0] if sys.argv else "").name == "opscope":
        return True
    words = sys.orig_argv
    return any(pair == ("-m", "opscope") for pair in itertools.pairwise(words))


def _start_as_environment_says() -> None:
    """A dump config in the environment acts on `import opscope` as well."""
    from opscope.ranks import RUN_ID_VARIABLE

    named = any(os.environ.get(n) for n in ("OPSCOPE_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG"))
    if named and not _is_program() and RUN_ID_VARIABLE not in os.environ:
        _start({})


_start_as_environment_says()

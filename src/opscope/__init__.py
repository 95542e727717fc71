"""opscope: the debugger for training neural networks.

`opscope run train.py` needs no change to a script. From code or a notebook::

    import opscope

    with opscope.start(dump="data_dump.json"):
        train()
"""

from __future__ import annotations

from opscope import early  # before anything that takes its time

# isort: split

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscope import logs, train
    from opscope.analysis.opened import Opened
    from opscope.judge.hits import Hit
    from opscope.judge.watchpoint import Watchpoint
    from opscope.printing.operator import Print, print_
    from opscope.session import Session

from opscope import context
from opscope._version import __version__
from opscope.context import set_context
from opscope.settings.context import current_context, on_context

__all__ = [
    "Print",
    "__version__",
    "add_watchpoint",
    "context",
    "logs",
    "on_hit",
    "open",
    "print_",
    "set_context",
    "set_dump",
    "start",
    "step",
    "stop",
    "train",
]

_LAZY = {
    "Print": ("opscope.printing.operator", "Print"),
    "print_": ("opscope.printing.operator", "print_"),
    "logs": ("opscope.logs", ""),
    "train": ("opscope.train", ""),
}
"""The names that are imported when first used: some of them need torch."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _LAZY[name]
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


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
    stats: bool | None = None,
    extra_stats: str | Sequence[str] | None = None,
    write_run: bool = False,
    config: str | os.PathLike[str] | None = None,
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
        "no_stats": stats is False,
        "extra_stats": extra_stats,
        "write_run": write_run,
        "config": None if config is None else os.fspath(config),
        "no_page": page is False,
    }
    return _start(flags)


def _start(flags: Mapping[str, object]) -> Session:
    from opscope.configuration import load_configuration
    from opscope.session import Session, begin
    from opscope.watch.ending import let_go_at_prompt

    let_go_at_prompt()
    settings = load_configuration(flags, os.environ, Path.cwd(), source="opscope.start")
    return begin(lambda: Session(settings, _script(), sys.argv))


def _script() -> str:
    """The file that a run is named after: the script, or a notebook as far as its name is known."""
    script = sys.argv[0] if sys.argv else ""
    if script in ("", "-c", "-m"):
        return "python"
    if Path(script).name != "ipykernel_launcher.py":
        return script
    own = getattr(sys.modules.get("__main__"), "__vsc_ipynb_file__", "")  # Visual Studio Code
    return own or os.environ.get("JPY_SESSION_NAME") or "notebook"  # which Jupyter's server sets


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
    if session is not None:
        session.mark_step()


def add_watchpoint(condition: str, **parts: Any) -> Watchpoint:
    """Set a watchpoint while training runs: a condition, its parameters, what it selects.

    >>> opscope.add_watchpoint("GL", max_gt=100.0, scope="*/head-*", name="head")  # doctest: +SKIP
    """
    from opscope.judge.parsing import make
    from opscope.messages import say_once
    from opscope.session import current_session

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


def open(path: str | os.PathLike[str]) -> Opened:
    """A run or a dump: its ranks, steps, nodes and values, and checks on them.

    `path` is a directory, or for a run its name, the start of it, or "last".

    >>> run = opscope.open("last")  # doctest: +SKIP
    >>> run.check("TO; WCL").hits  # doctest: +SKIP
    """
    from opscope.analysis.opened import open_for_checks

    return open_for_checks(os.fspath(path))


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magics `%%opscope` and `%opscope_hits`, for `%load_ext opscope`."""
    from opscope.train.adapters.ipython import load

    load(shell)


def _start_as_environment_says() -> None:
    """Start on `import opscope` alone what the environment asks for: dump, debugger, recorder."""
    named = any(os.environ.get(n) for n in ("OPSCOPE_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG"))
    named = named or _asks_for_debugger()
    if _may_start() and (named or _asks_for_recorder()):
        _start({} if named else _ONLY_RECORDER)


def _may_start() -> bool:
    """Tell whether this is the user's own program, and no part of a run that has begun."""
    from opscope.ranks import RUN_ID_VARIABLE

    return not early.is_program() and RUN_ID_VARIABLE not in os.environ


def _asks_for_debugger() -> bool:
    return os.environ.get("ENABLE_MS_DEBUGGER", "").strip().lower() in ("1", "true", "yes", "on")


def _asks_for_recorder() -> bool:
    names = ("OPSCOPE_RECORD_ENABLE", "MS_RDR_ENABLE")
    value = next((os.environ[name] for name in names if os.environ.get(name, "").strip()), "")
    return value.strip() not in ("", "0")  # what is wrong with another value is said at the start


_ONLY_RECORDER = {"no_stats": True}


def _record_as_context_says() -> None:
    """`set_context(env_config_path=…)` starts the recorder where nothing has been started."""
    from opscope.session import current_session

    session = current_session()
    enabled = current_context().recorder.get("enable", False)
    if enabled and _may_start() and (session is None or not session.running):
        _start(_ONLY_RECORDER)


on_context(_record_as_context_says)
_start_as_environment_says()

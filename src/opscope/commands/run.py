"""Run a training script under opscope.

The script runs in this process, exactly as `python script.py` would run it; opscope watches its
operators and writes a run directory, or a dump if `--dump` is given.

  opscope run [options] script.py [args...]
  opscope run [options] -m module [args...]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from opscope.commands.interrupt import ended_in_a_line
from opscope.commands.tables import is_terminal
from opscope.errors import HIT, OpscopeError
from opscope.messages import mend_streams, say
from opscope.script import check_script, run_module, run_script
from opscope.session import Session, begin
from opscope.settings.run import RunSettings
from opscope.waiting import finish
from opscope.watch.ending import TrainingStopped

_OPTIONS = (
    ("--dump", "FILE", "dump operators as this JSON config says; alone, nothing else is written"),
    ("--config", "FILE", "a mindspore_config.json, whose section rdr is about the recorder"),
    ("--run-dir", "DIR", "where to write the run (default: ./opscope-runs/{script}-{time}-{id})"),
    ("--steps", "RANGES", 'only these steps, such as "0|5-8|100-120" (default: all)'),
    ("--every", "N", "only one step in N (default: 1)"),
    ("--scope", "GLOB", "only operators whose scope matches, such as '*/conv3-Conv2d*'"),
    ("--include", "PHASES", "also dump and watch these phases: setup, data, eval"),
    ("--extra-stats", "NAMES", "further statistics of every value, such as kurtosis,median_abs"),
    ("--budget", "SIZE", "how large a rank of the run may grow (default: 2GiB)"),
    ("--keep-runs", "N", "keep this many runs in ./opscope-runs (default: all)"),
    ("--watch", "WHAT", "watchpoints: none, recommended (default), a file or a specification"),
    ("--on-hit", "WHAT", "what a hit does: stop (default; exit code 3), pause or log"),
    ("--on-hit-kinds", "KINDS", "hits that --on-hit is about: nonfinite (default), all, TO,WCL,…"),
    ("--server", "HOST:PORT", "let this server control training; wss://HOST:PORT if it has TLS"),
    ("--patience", "SECONDS", "how long training holds when nobody is there (default: 600)"),
    ("--keep", "WHAT", "values to keep for who looks: named nodes (default), all or none"),
    ("--keep-budget", "SIZE", "memory for them (default: 1GiB); four times as much goes to disk"),
    ("--save-state", "SIZE", "how much state a hit may save: 1GiB (default), …, or none"),
)
VALUE_OPTIONS = frozenset(name for name, _, _ in _OPTIONS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "opscope run [options] script.py [args...] | -m module [args...]"
    for name, metavar, text in _OPTIONS:
        parser.add_argument(name, metavar=metavar, help=text)
    parser.add_argument("--write-run", action="store_true", help="write the run beside a dump")
    parser.add_argument("--no-stats", action="store_true", help="no statistics: only the recorder")
    parser.add_argument("--record", action="store_true", help="the recorder also beside a dump")
    parser.add_argument("--no-record", action="store_true", help="no recorder")
    parser.add_argument("--quick", action="store_true", help="check for NaN and Inf only")
    parser.add_argument(
        "--strict", action="store_true", help="on a GPU, wait for the numbers before each update"
    )
    parser.add_argument(
        "--wait", action="store_true", help="hold before step 0 until told to go on"
    )
    parser.add_argument("--no-page", action="store_true", help="no page")


def run(args: argparse.Namespace) -> int:
    command: list[str] = args.command_line
    is_module = command[:1] == ["-m"]
    target = command[1:2] if is_module else command[:1]
    arguments = command[2:] if is_module else command[1:]
    with ended_in_a_line():
        settings = _checked(args, target, is_module)
        session = begin(lambda: _session(settings, target[0], command))
    finish()
    if not _announce(session) and is_terminal(sys.stderr):
        say(f"watching {target[0]}")  # which may import for long before it prints
    try:
        if is_module:
            run_module(target[0], arguments)
        else:
            run_script(target[0], arguments)
    except BaseException as error:
        session.note_failure(error)
        if not session.stopped_by_hit and not _stopped_a_child(session, error):
            raise
        if not isinstance(
            error, (SystemExit, TrainingStopped)
        ):  # what the script made of being ended
            _show(error)
        return _ended_by_hit()
    return _ended_by_hit() if session.stopped_by_hit else 0


def _checked(args: argparse.Namespace, target: list[str], is_module: bool) -> RunSettings:
    """The settings; all that is wrong with options, script and config is said at once."""
    from opscope.configuration import load_configuration

    problems: list[str] = list(args.problems)
    try:
        if not target:
            raise OpscopeError("nothing to run: name a script, or -m and a module")
        # before it may stand the value of an unknown option, which is no script
        if not is_module and (not problems or target[0].endswith(".py")):
            check_script(target[0])
    except OpscopeError as error:
        problems.append(str(error))
    try:
        settings = load_configuration(vars(args), os.environ, Path.cwd(), records=True)
    except OpscopeError as error:
        problems.append(str(error))
    if problems:
        raise OpscopeError("\n".join(problems))
    return settings


def _session(settings: RunSettings, script: str, command: list[str]) -> Session:
    session = Session(settings, script, command)
    session.serves = True
    return session


def _announce(session: Session) -> bool:
    """Say where the page is, if there is one, and open it where there is a desktop."""
    has_page = bool(session.page and session.run_directory is not None)
    if session.page and session.run_directory is not None:
        from opscope.access_token import own_token
        from opscope.desktop import announce, page_link

        announce(page_link(session.page, session.run_directory, own_token()))
    return has_page


def _show(error: BaseException) -> None:
    """Print an exception as Python would, in the script's own way if it has one."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # noqa: BLE001 - the script's own way failed
        sys.__excepthook__(type(error), error, error.__traceback__)


def _ended_by_hit() -> int:
    """The exit code, which a broken stdout or stderr of the script must not replace."""
    mend_streams()
    return HIT


def _stopped_a_child(session: Session, error: BaseException) -> bool:
    """Tell whether `mp.spawn` raises because a hit ended training in a process it started."""
    of_child = getattr(error, "exit_code", None) == HIT and not isinstance(error, SystemExit)
    return of_child and session.has_hits

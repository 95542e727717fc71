"""Lets the ranks of one run agree on one directory: the first to come names it."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

from opscope.atomic_files import write_first
from opscope.errors import OpscopeError
from opscope.locks import is_held
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_object
from opscope.rundir.layout import run_name
from opscope.rundir.retention import is_alive, retire_runs

_FRESH_SECONDS = 60.0
"""Ranks start within this time of each other; an older claim counts only while its run lives."""


def choose_run_directory(
    given: Path | None, script: str, run_id: str, *, keep: int = 0, shared: bool = False
) -> Path:
    """Return the directory of a run: the given one, or a new one, for which old ones make room.

    With `shared` the ranks of a run, each in its own process, get the same.
    """
    if given is not None:
        if written_run_id(given) not in (None, run_id):
            raise OpscopeError(f"{given} holds another run already; give another --run-dir")
        return given
    root = Path.cwd() / layout.RUNS
    if keep:
        retire_runs(root, keep - 1)
    choose = shared_run_directory if shared else new_run_directory
    return choose(root, script, run_id)


def new_run_directory(root: Path, script: str, run_id: str) -> Path:
    """A directory of its own for a run of one process."""
    return root / run_name(script, datetime.now(), run_id)


def shared_run_directory(root: Path, script: str, run_id: str) -> Path:
    """The directory of a run whose ranks each call this with the same `run_id`."""
    root.mkdir(parents=True, exist_ok=True)
    claim = root / f".{run_id}.claim"
    if _is_stale(root, claim):
        claim.unlink(missing_ok=True)
    own = new_run_directory(root, script, f"{run_id}-{os.urandom(2).hex()}")
    write_first(claim, own.name.encode())
    return root / claim.read_text()


def written_run_id(run: Path) -> str | None:
    """The id of the run a directory holds: None if it holds none, "" if that was not written."""
    facts = read_object(run / layout.RUN_FILE)
    return None if facts is None else str(facts.get("id", ""))


def move_aside(rank: Path) -> None:
    """Move the files aside that a parent left as this rank before the real one started."""
    if rank.exists() and not is_held(rank / layout.LOCK):
        number = 0
        while (target := rank.with_name(f"{rank.name}.before{number or ''}")).exists():
            number += 1
        rank.rename(target)


def _is_stale(root: Path, claim: Path) -> bool:
    try:
        age = time.time() - claim.stat().st_mtime
        return age > _FRESH_SECONDS and not is_alive(root / claim.read_text())
    except FileNotFoundError:
        return False

"""Keeps the newest runs of a directory and every one that is alive, and deletes others."""

from __future__ import annotations

import shutil
from pathlib import Path

from opscope.locks import is_held
from opscope.messages import say_once
from opscope.rundir.jsonlines import read_object
from opscope.rundir.layout import LOCK, RUN_FILE, rank_directories

_RETIRED = ".retired-"


def is_alive(run: Path) -> bool:
    """Tell whether a rank of this run is still running."""
    return any(is_held(path / LOCK) for path in rank_directories(run).values())


def runs_in(root: Path) -> list[Path]:
    """The runs directly in a directory, oldest first."""
    if not root.is_dir():
        return []
    visible = (path for path in root.iterdir() if not path.name.startswith("."))
    started = ((_started(path), path.name, path) for path in visible)
    return [path for when, _, path in sorted(started) if when]


def retire_runs(root: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` runs, never a living one; returns those that are gone."""
    newest_first = runs_in(root)[::-1]
    retired = [run for run in newest_first[keep:] if not run.is_symlink() and not is_alive(run)]
    for run in retired:
        _hide(run)
    for leftover in root.glob(f"{_RETIRED}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return retired


def _started(path: Path) -> str:
    info = read_object(path / RUN_FILE) or {}
    return str(info.get("started", ""))


def _hide(run: Path) -> None:
    """Rename a run that goes, so that nobody finds half of it."""
    try:
        run.rename(run.with_name(f"{_RETIRED}{run.name}"))
    except OSError as error:
        say_once(f"{run} could not be deleted: {error.strerror}")

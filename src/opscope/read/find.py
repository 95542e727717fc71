"""Find the run that a person means: by path, by name, by the start of a name, or the last one."""

from __future__ import annotations

import difflib
from pathlib import Path

from opscope.dump.layout import METADATA
from opscope.errors import OpscopeError
from opscope.escapes import escaped
from opscope.regular import is_directory
from opscope.rundir.layout import RUN_FILE, RUNS, rank_directories
from opscope.rundir.retention import runs_in

LAST = "last"
_LISTED = 5
"""So many runs are named, the newest first."""


def find_run(text: str, root: Path = Path(RUNS)) -> Path:
    """The directory of the run `text` means; names are looked up in `root`."""
    if is_run(Path(text)):
        return Path(text)
    runs = runs_in(root)
    if text == LAST:
        return _last(runs, root)
    exact = [run for run in runs if run.name == text]
    matches = exact or [run for run in runs if run.name.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    raise OpscopeError(_ambiguous(text, matches) if matches else _missing(text, runs, root))


def is_run(path: Path) -> bool:
    """Tell whether a path is a run directory."""
    return (path / RUN_FILE).is_file()


def is_dump(path: Path) -> bool:
    """Tell whether a path is a dump, or one rank of it."""
    if is_directory(path / METADATA):
        return True
    return any(is_directory(rank / METADATA) for rank in rank_directories(path).values())


def recordings_in(root: Path) -> list[Path]:
    """The runs in a directory, oldest first, then the dumps; or the one that it is itself."""
    if is_run(root) or is_dump(root):
        return [root]
    runs = runs_in(root)
    others = sorted(root.iterdir()) if root.is_dir() else []
    return runs + [path for path in others if path not in runs and is_dump(path)]


def _last(runs: list[Path], root: Path) -> Path:
    if not runs:
        raise OpscopeError(none_in(root))
    return runs[-1]


def none_in(root: Path) -> str:
    """Say that a directory has no run, and how to make one."""
    how = "; `opscope run train.py` makes one" if str(root) == RUNS else ""
    return f"there is no run in {root}{how}"


def _ambiguous(text: str, matches: list[Path]) -> str:
    names = "\n".join(f"  {escaped(run.name)}" for run in matches)
    return f"{text} is the start of {len(matches)} runs:\n{names}"


def _missing(text: str, runs: list[Path], root: Path) -> str:
    if Path(text).exists():
        return f"{text} is no run: it has no {RUN_FILE}"
    if not runs:
        return f"{text}: no such path, and {none_in(root)}"
    names = [run.name for run in runs]
    close = difflib.get_close_matches(text, names, n=3, cutoff=0.4)
    shown = [escaped(name) for name in close or names[: -_LISTED - 1 : -1]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{text}: no such run; in {root} there are {', '.join(shown)}{more}"

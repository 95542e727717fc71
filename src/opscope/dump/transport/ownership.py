"""Whose dump directory it is: a lock per rank, and room made for a new run."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.atomic_files import make_directory
from opscope.dump import layout
from opscope.dump.format.manifest import run_of
from opscope.errors import OpscopeError
from opscope.locks import FileLock, is_held, one_at_a_time
from opscope.messages import say_once
from opscope.regular import read_regular

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings

_PATIENCE_S = 0.3
_LAST_WRITES_S = 30.0


def check_path_free(settings: DumpSettings, rank: int | None, run_id: str) -> None:
    """Raise if a live run writes into the path: another run, or this one's same rank."""
    if settings.path.is_dir():
        with one_at_a_time(settings.path):
            _check_free(settings.path, rank, run_id)


class RankLock:
    """Holds `{path}/.rank_N.lock` while a run writes `{path}/rank_N`; the kernel frees it."""

    def __init__(self, path: Path, rank: int, run_id: str) -> None:
        make_directory(path)
        with one_at_a_time(path):  # others must not see a lock without its holder
            _check_free(path, rank, run_id)
            file = layout.lock_file(layout.rank_directory(path, rank))
            self._lock = FileLock(file)
            if not self._take():
                self.release()
                raise _in_use(path, _holder(file))
            self.descriptor = self._lock.descriptor
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, json.dumps({"run": run_id, "pid": os.getpid()}).encode())

    def release(self) -> None:
        """Let go of the path."""
        self._lock.release()

    def _take(self) -> bool:
        """Lock it; waits a moment, because another process may just be looking."""
        try:
            return self._lock.take(_PATIENCE_S)
        except OSError as error:
            say_once(f"the dump's path cannot be locked ({error.strerror}); go on without")
            return True


def make_room(path: Path, rank: int, run_id: str) -> Path | None:
    """Move what earlier runs left to `.previous/{time}`; returns where. Needs the rank's lock."""
    with one_at_a_time(path):
        old = [
            directory
            for directory in layout.rank_directories(path)
            if _is_old(directory, rank, run_id)
        ]
        if not old:
            return None
        target = _new_directory(path / layout.PREVIOUS)
        for directory in old:
            directory.rename(target / directory.name)
        return target


def _is_old(directory: Path, rank: int, run_id: str) -> bool:
    if directory == layout.rank_directory(directory.parent, rank):
        return True
    return not is_held(layout.lock_file(directory), unknown=False) and run_of(directory) != run_id


def _new_directory(parent: Path) -> Path:
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in range(10_000):
        target = parent / (f"{name}-{number}" if number else name)
        if not target.exists():
            make_directory(target)
            return target
    raise OSError(errno.EEXIST, "no free name", str(parent / name))


def _check_free(path: Path, rank: int | None, run_id: str) -> None:
    own = None if rank is None else layout.lock_file(layout.rank_directory(path, rank))
    for file in layout.lock_files(path):
        holder = _holder(file)
        if not is_held(file, _LAST_WRITES_S if _is_gone(holder) else 0, unknown=False):
            continue
        if holder.get("run") != run_id or file == own:
            raise _in_use(path, holder)


def _is_gone(holder: dict[str, object]) -> bool:
    """Tell whether the training process is gone, and only its last values are being written."""
    pid = holder.get("pid")
    return isinstance(pid, int) and not Path(f"/proc/{pid}").exists()


def _holder(file: Path) -> dict[str, object]:
    try:
        holder = json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _in_use(path: Path, holder: dict[str, object]) -> OpscopeError:
    who = f"process {holder['pid']}" if "pid" in holder else "another process"
    run = f" (run {holder['run']})" if "run" in holder else ""
    return OpscopeError(
        f"{path}: {who}{run} is writing a dump there; wait until it ends, or give another path"
    )

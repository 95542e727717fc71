"""The files of one rank, for a server on another machine: what there is, and parts of it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.errors import OpscopeError
from opscope.native import shared
from opscope.record.in_use import header_numbers
from opscope.record.places import IN_RUN, LOCK_FILE, REPORT_FILE, rank_folder
from opscope.record.ring import RING_FILE
from opscope.regular import entries, is_directory, is_file, open_regular
from opscope.rundir import layout
from opscope.rundir.stat_files import ROWS
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, VALID

CHUNK = 1 << 20
"""The most bytes of one answer."""
_MOST_EXACT = 1 << 53
"""Numbers from here on do not travel as numbers; some file systems have such inodes."""
_NAME = r"[\w-][\w.-]{0,199}"
_PATH = re.compile(
    rf"run\.json|sources/{_NAME}|rank_\d{{1,9}}/"
    rf"(?:{_NAME}\.jsonl?|(?:extra_)?stats/{_NAME}|hits/{_NAME}/{_NAME})"
    rf"|{IN_RUN}/rank_\d{{1,9}}/rdr/(?!{LOCK_FILE}$){_NAME}"
)
_RANK = "rank_"


class ListedFile(NamedTuple):
    """A file as it is now."""

    path: str
    """Within the run directory."""
    identity: int
    """Another one if the file has been replaced."""
    size: int
    settled: int
    """So many of its first bytes will not change any more."""


def may_travel(path: str) -> bool:
    """Tell whether this is a file of a run directory, and no way out of it."""
    return _PATH.fullmatch(path) is not None


def owner(path: str) -> str:
    """Return the name of the rank that alone writes a file of a run; empty if all share it."""
    parts = path.split("/")
    name = parts[1] if parts[0] == IN_RUN and len(parts) > 1 else parts[0]
    return name if name.startswith(_RANK) else ""


@contextlib.contextmanager
def witness(directory: Path) -> Iterator[str]:
    """The name of a file that is in a directory for this moment: who sees it has the same disk."""
    name = f".here-{secrets.token_hex(16)}"
    file = directory / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.touch(exist_ok=False)
    except OSError:
        yield ""
        return
    try:
        yield name
    finally:
        file.unlink(missing_ok=True)


def sees_witness(directory: Path, name: str) -> bool:
    """Tell whether the file that another process speaks of is here."""
    try:
        return name.startswith(".here-") and name.isascii() and (directory / name).is_file()
    except (OSError, ValueError):
        return False


class _Held:
    """A file that is kept open."""

    def __init__(self, descriptor: int, serial: int) -> None:
        self.descriptor = descriptor
        self.serial = serial

    def __del__(self) -> None:
        os.close(self.descriptor)


class RunFiles:
    """The files that one rank has written, with those that it shares with others."""

    def __init__(self, run: Path, rank: int) -> None:
        self._run = run
        self._rank = layout.rank_directory(run, rank)
        self._recording = rank_folder(run / IN_RUN, rank)
        self._whole: dict[tuple[str, int], int] = {}
        """The number of bytes of rows that were settled at the last look."""
        self._held: dict[str, _Held] = {}
        """By name: files of the run and of the rank, which may be replaced."""
        self._serial = secrets.randbits(48)  # not those of an earlier process of this rank

    def listing(self) -> list[ListedFile]:
        """All files: rows are looked at first, so that the lines they refer to are among these."""
        rows = self._listed(self._rank / layout.STATS)
        return [*rows, *self._others()]

    def read(self, path: str, offset: int, count: int) -> bytes:
        """A part of a file."""
        if not may_travel(path) or offset < 0 or not 0 < count <= CHUNK:
            raise OpscopeError(f"{path}: no part of a file of this run")
        try:
            descriptor = open_regular(self._run / path)
        except OSError as error:
            raise OpscopeError(f"there is no {path}: {error.strerror}") from None
        try:
            return os.pread(descriptor, count, offset)
        finally:
            os.close(descriptor)

    def _others(self) -> list[ListedFile]:
        hits = self._rank / layout.HIT_STATES
        extra = self._rank / layout.EXTRA_STATS
        folders = [self._run, self._run / layout.SOURCES, self._rank, extra]
        states = [path for path in _inside(hits) if is_directory(path)]
        found = [each for folder in (*folders, *states) for each in self._listed(folder)]
        return found + self._recorded()

    def _recorded(self) -> list[ListedFile]:
        """The files of the recorder once there is a report; its ring when nobody writes to it."""
        if not is_file(self._recording / REPORT_FILE):
            return []
        is_over = _is_exported(self._recording)
        return [
            each
            for each in self._listed(self._recording)
            if is_over or not each.path.endswith(f"/{RING_FILE}")
        ]

    def _listed(self, folder: Path) -> list[ListedFile]:
        return [found for path in _inside(folder) if (found := self._look(path)) is not None]

    def _look(self, path: Path) -> ListedFile | None:
        name = path.relative_to(self._run).as_posix()
        if not may_travel(name):
            return None
        try:
            descriptor = open_regular(path)
        except OSError:  # it has gone, or is a directory
            return None
        try:
            facts = os.fstat(descriptor)
            size = settled = facts.st_size
            if path.suffix == ROWS and not path.with_suffix(".index").exists():
                settled, size = self._extent(descriptor, (name, facts.st_ino))
            return ListedFile(name, self._identity(path, descriptor, facts), size, settled)
        finally:
            os.close(descriptor)

    def _identity(self, path: Path, descriptor: int, facts: os.stat_result) -> int:
        """A number that no other file under this name gets, though its inode may be used again.

        What is replaced is told apart by being held open: so long its inode is not used again.
        """
        if path.parent == self._recording:  # replaced at the end of a training that had hung
            return (facts.st_ino ^ facts.st_mtime_ns) % _MOST_EXACT
        if path.parent not in (self._run, self._rank):  # never replaced
            return facts.st_ino % _MOST_EXACT
        held = self._held.get(path.name)
        if held is None or not os.path.samestat(os.fstat(held.descriptor), facts):
            self._serial += 1
            held = self._held[path.name] = _Held(os.dup(descriptor), self._serial)
        return held.serial

    def _extent(self, descriptor: int, key: tuple[str, int]) -> tuple[int, int]:
        """Of rows that are being written: how far they are whole, and how far there are any."""
        whole = end = self._whole.get(key, 0)
        is_whole = True
        while chunk := os.pread(descriptor, CHUNK, end):
            valid = np.frombuffer(chunk, ROW_DTYPE, len(chunk) // ROW_BYTES)["valid"] == VALID
            if not valid.any():
                break
            if is_whole:
                is_whole = bool(valid.all())
                whole += ROW_BYTES * int(len(valid) if is_whole else np.argmin(valid))
            end += ROW_BYTES * (int(np.flatnonzero(valid)[-1]) + 1)
            if not valid[-1]:
                break
        self._whole[key] = whole
        return whole, end


class FileVerbs:
    """The questions of a server that copies a rank's files."""

    def __init__(self, files: RunFiles, on_caught_up: Callable[[], None]) -> None:
        self._files = files
        self._on_caught_up = on_caught_up
        self.verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "files": lambda args: [list(each) for each in self._files.listing()],
            "read": self._read,
            "caught_up": lambda args: self._on_caught_up(),
        }

    def _read(self, args: dict[str, Any]) -> bytes:
        path, offset, count = args.get("path"), args.get("offset"), args.get("count")
        if not isinstance(path, str) or not isinstance(offset, int) or not isinstance(count, int):
            raise OpscopeError("read needs path, offset and count")
        return self._files.read(path, offset, count)


def _inside(folder: Path) -> list[Path]:
    return entries(folder) if is_directory(folder) else []


def _is_exported(folder: Path) -> bool:
    try:
        numbers = header_numbers(folder, "state")
    except OSError:
        return False
    return numbers == [shared.RING_EXPORTED]

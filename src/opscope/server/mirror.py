"""A copy of what a rank on another machine records, which readers take for the run itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from opscope.errors import OpscopeError
from opscope.live.run_files import CHUNK, ListedFile, may_travel, owner
from opscope.locks import FileLock
from opscope.messages import say_once
from opscope.record.places import IN_RUN, REPORT_FILE, rank_folder
from opscope.rundir import layout
from opscope.rundir.stat_files import ROWS

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
LOOK_S = 0.5
"""The interval at which it looks for what is new, while nothing happens."""
_MOST_FILES = 20_000


def mirror_place(root: Path, directory: str, run_id: str) -> Path:
    """Return where the copy of a run is: the same place for all ranks that share the run's id."""
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in Path(directory).name)[-120:]
    digest = hashlib.sha256(f"{run_id}|{name}".encode("utf-8", "replace")).hexdigest()[:6]
    return root / f"{name.lstrip('.') or 'run'}-{digest}"


class Mirror:
    """The files of one rank in a run directory of this machine."""

    def __init__(self, place: Path, rank: int) -> None:
        self._place = place
        self._rank = layout.rank_directory(place, rank)
        self._recording = rank_folder(place / IN_RUN, rank)
        self._known: dict[str, tuple[int, int]] = {}
        """By path: which file it was, and how many bytes of it need not be asked for again."""
        self._lock: FileLock | None = None
        self._busy = asyncio.Lock()

    def open(self) -> None:
        """Mark the copy as of a running rank, which is connected."""
        self._rank.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self._rank / layout.LOCK)
        self._lock.take(0)

    def close(self) -> None:
        """Mark the copy as of a rank that is not connected any more."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def catch_up(self, ask: Ask) -> None:
        """Copy what there is and is not here; lines come before the rows that refer to them."""
        async with self._busy:
            listed = [file for file in _checked(await ask("files", {})) if self._is_own(file)]
            try:
                for file in sorted(listed, key=_order):
                    await self._copy(ask, file)
                await asyncio.to_thread(self._remove_all_but, {file.path for file in listed})
            except OSError as error:
                say_once(f"cannot copy a run to {self._place}: {error.strerror or error}")

    def _is_own(self, file: ListedFile) -> bool:
        return owner(file.path) in (self._rank.name, "")

    async def _copy(self, ask: Ask, file: ListedFile) -> None:
        identity, offset = self._known.get(file.path, (0, 0))
        target = self._place / file.path
        if identity == file.identity and offset >= file.size:
            return
        if not owner(file.path) and target.exists():
            return  # another rank has sent it
        is_new = identity != file.identity
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}") if is_new else target
        begin = 0 if is_new else offset
        try:
            await self._fetch(ask, file, begin, draft)
        except OpscopeError:  # it has gone, or the rank has
            if is_new:
                draft.unlink(missing_ok=True)
            return
        if is_new:
            draft.replace(target)
        self._known[file.path] = (file.identity, file.settled)

    async def _fetch(self, ask: Ask, file: ListedFile, begin: int, target: Path) -> None:
        await asyncio.to_thread(_prepare, target)
        while begin < file.size:
            args = {"path": file.path, "offset": begin, "count": min(CHUNK, file.size - begin)}
            data = await ask("read", args)
            if not isinstance(data, bytes) or not data or len(data) > CHUNK:
                raise OpscopeError(f"{file.path} is shorter than it was")
            await asyncio.to_thread(_write, target, begin, data)
            begin += len(data)

    def _remove_all_but(self, listed: set[str]) -> None:
        """Remove the copies of files that are gone there.

        Rows are thinned; what had hung may go on and end well, and then leaves no recording.
        """
        rows = (self._rank / layout.STATS, self._rank / layout.EXTRA_STATS)
        folders = [each for each in (*rows, self._recording) if each.is_dir()]
        for path in (path for folder in folders for path in folder.iterdir()):
            name = path.relative_to(self._place).as_posix()
            if name not in listed:
                path.unlink(missing_ok=True)
                self._known.pop(name, None)


def _checked(answer: Any) -> list[ListedFile]:
    """The files a rank speaks of, as far as they can be files of a run."""
    found = []
    for each in answer[:_MOST_FILES] if isinstance(answer, list) else ():
        if not isinstance(each, list) or len(each) != len(ListedFile._fields):
            continue
        path, *numbers = each
        whole = all(isinstance(number, int) and number >= 0 for number in numbers)
        if isinstance(path, str) and may_travel(path) and whole:
            found.append(ListedFile(path, *numbers))
    return found


def _order(file: ListedFile) -> tuple[int, str]:
    """Lines, rows, what says that rows are whole, large states, and that there is no more.

    A recording comes with its report last, which says that it is whole.
    """
    if file.path.endswith(f"/{layout.END_FILE}"):
        return 7, file.path
    if file.path.startswith(f"{IN_RUN}/"):
        return (6 if file.path.endswith(f"/{REPORT_FILE}") else 5), file.path
    if f"/{layout.HIT_STATES}/" in file.path:
        return 4, file.path
    if f"/{layout.STATS}/" not in file.path:
        return 0, file.path
    if file.path.endswith(ROWS):
        return 2, file.path
    is_thinned = "-" in Path(file.path).name
    return (1 if is_thinned else 3), file.path


def _prepare(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()


def _write(target: Path, offset: int, data: bytes) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written
    finally:
        os.close(descriptor)

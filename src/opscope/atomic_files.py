"""Files that appear complete or not at all, and lines appended in one write."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755


def make_directory(path: str | Path) -> None:
    """Create a directory and those above it."""
    try:
        os.mkdir(path, _DIRECTORY_MODE)  # noqa: PTH102 - once per iteration, mostly all it takes
    except OSError:
        Path(path).mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)


def write_all(descriptor: int, buffers: Sequence[Any], size: int) -> None:
    """Write the buffers, which are `size` bytes together."""
    written = os.writev(descriptor, buffers)
    if written < size:
        _write_rest(descriptor, buffers, written)


def _write_rest(descriptor: int, buffers: Sequence[Any], done: int) -> None:
    """Go on after a write that was cut short."""
    for buffer in buffers:
        view = _bytes_of(buffer)
        while done < len(view):
            done += os.write(descriptor, view[done:])
        done -= len(view)


def _bytes_of(buffer: Any) -> memoryview:
    flat = buffer.reshape(-1).view("u1") if hasattr(buffer, "reshape") else buffer
    return memoryview(flat)


def append(path: str | Path, data: bytes) -> None:
    """Append to a file with one write, creating it if need be."""
    descriptor = os.open(path, _APPEND, _FILE_MODE)
    try:
        write_all(descriptor, [data], len(data))
    finally:
        os.close(descriptor)


def write_whole(path: Path, *content: bytes | memoryview) -> None:
    """Write a file over what was there."""
    _draft(path, *content).replace(path)


def write_first(path: Path, content: bytes) -> None:
    """Write a file unless it is there: of several writers the first wins."""
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:
        # This file system has no hard links; the writers agree on the content that matters.
        if not path.exists():
            draft.replace(path)
    draft.unlink(missing_ok=True)


class Reserved:
    """A small file whose place on the disk is taken before it is needed: a full disk lets it be."""

    def __init__(self, path: Path, size: int = 4096) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.reserved")
        with open(self._draft, "xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)

    def write(self, content: bytes) -> None:
        """Make the file appear, with this content."""
        with open(self._draft, "r+b", buffering=0) as file:
            file.write(content)
            file.truncate(len(content))
        self._draft.replace(self._path)

    def give_back(self) -> None:
        """Remove the draft, which is not needed."""
        self._draft.unlink(missing_ok=True)


def _draft(path: Path, *content: bytes | memoryview) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("wb") as file:
            for part in content:
                file.write(part)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


class _removed_on_error:  # noqa: N801 - reads as a statement
    """Removes a temporary file when what is done with it fails."""

    __slots__ = ("_temporary",)

    def __init__(self, temporary: str) -> None:
        self._temporary = temporary

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        if isinstance(error, OSError):
            error.filename = error.filename or self._temporary
        with contextlib.suppress(OSError):
            Path(self._temporary).unlink()


class TempFiles:
    """Writes into a directory of temporary files and renames what is complete into its place."""

    def __init__(self, directory: str | Path, owner: str) -> None:
        self.directory = str(directory)
        self._owner = owner
        self._numbers = itertools.count()

    def place(self, path: str | Path, buffers: Sequence[Any], size: int) -> None:
        """Make a file hold exactly these buffers, which are `size` bytes together."""
        self.rename(self.write(buffers, size), path)

    def begin(self) -> tuple[int, str]:
        """A new temporary file, open for reading and writing, and its path."""
        temporary = f"{self.directory}/{self._owner}{next(self._numbers)}"
        return os.open(temporary, _NEW_FILE & ~os.O_WRONLY | os.O_RDWR, _FILE_MODE), temporary

    def write(self, buffers: Sequence[Any], size: int) -> str:
        """Write a temporary file and return its path."""
        temporary = f"{self.directory}/{self._owner}{next(self._numbers)}"
        with _removed_on_error(temporary):
            descriptor = os.open(temporary, _NEW_FILE, _FILE_MODE)
            try:
                write_all(descriptor, buffers, size)
            finally:
                os.close(descriptor)
        return temporary

    def rename(self, temporary: str, path: str | Path) -> None:
        """Put a temporary file in its place."""
        with _removed_on_error(temporary):
            os.rename(temporary, path)  # noqa: PTH104 - once per value

    def place_bytes(self, path: str | Path, data: bytes) -> None:
        """Make a file hold exactly these bytes."""
        self.place(path, [data], len(data))

    def remove(self) -> None:
        """Remove the directory and what an interrupted write left there."""
        shutil.rmtree(self.directory, ignore_errors=True)

"""Files and directories that may be anything: only regular files are read, none is waited for."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from opscope.messages import say_once

_T = TypeVar("_T")
LIMIT = 64 << 20
"""No file is read as a whole, and no line of one, that has more bytes."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_KINDS = {
    stat.S_IFDIR: (errno.EISDIR, "is a directory"),
    stat.S_IFIFO: (errno.EINVAL, "is a FIFO"),
    stat.S_IFCHR: (errno.EINVAL, "is a device"),
    stat.S_IFBLK: (errno.EINVAL, "is a device"),
}
_REFUSED = {errno.ENXIO: "is a socket or a device", errno.ELOOP: "is a symbolic link"}


def open_regular(path: str | Path, follow: bool = False) -> int:
    """A descriptor to read from; OSError in words for a FIFO, a device, a socket, a directory.

    A link is followed only if asked: a person may give one, a recording has none.
    """
    try:
        descriptor = os.open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _REFUSED:
            raise _refusal(error.errno or 0, _REFUSED[error.errno or 0], path) from None
        raise
    except ValueError as error:
        raise OSError(errno.EINVAL, f"is no path: {error}", str(path)) from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise _refusal(*_KINDS.get(kind, (errno.EINVAL, "is something else")), path)
    return descriptor


def _refusal(number: int, what: str, path: str | Path) -> OSError:
    return OSError(number, f"{what}, no regular file", str(path))


def with_more_files(opening: Callable[[], _T]) -> _T:
    """Open something; where too many files are open, let this process have as many as it may."""
    try:
        return opening()
    except OSError as error:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if error.errno != errno.EMFILE or soft == hard:
            raise
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return opening()


def read_regular(path: str | Path, follow: bool = False) -> bytes:
    """All that is in a regular file; OSError if that is too much."""
    with open(open_regular(path, follow), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LIMIT:
            raise OSError(errno.EFBIG, f"has {size} bytes; at most {LIMIT} are read", str(path))
        return file.read(LIMIT)


def regular_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of a regular file, with their ends; OSError at one that is too long."""
    with open(open_regular(path), "rb") as file:
        yield from lines_in(file)


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file from where it stands, with their ends; OSError as above."""
    while line := file.readline(LIMIT):
        if len(line) == LIMIT and not line.endswith(b"\n"):
            raise OSError(errno.EFBIG, f"has a line of more than {LIMIT} bytes")
        yield line


def is_directory(path: Path) -> bool:
    """Tell whether there is a directory, as far as that can be seen."""
    try:
        return path.is_dir()
    except OSError:  # above it is one that must not be looked into
        return False


def is_file(path: Path) -> bool:
    """Tell whether there is a file, as far as that can be seen."""
    try:
        return path.is_file()
    except OSError:
        return False


def entries(directory: Path) -> list[Path]:
    """List what is in a directory, sorted; where it must not be looked into, say so."""
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        say_once(f"{directory} cannot be looked into: {why(error)}; left out")
        return []


def why(error: OSError) -> str:
    """Say what is wrong with a file, without its name."""
    return error.strerror or str(error)

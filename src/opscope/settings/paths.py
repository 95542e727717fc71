"""Checks that files can be written under a directory, before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

from opscope.regular import why
from opscope.settings.checks import InvalidError

NAME_BYTES = 255


def absolute(text: str) -> str:
    """An absolute path."""
    if not Path(text).is_absolute():
        raise InvalidError('must be an absolute path, such as "/data/dump"')
    return text


def writable_directory(text: str) -> Path:
    """A directory that can be written to, or created and then written to."""
    _check_names(text)
    path = Path(text)
    nearest = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
    if not nearest.is_dir():
        raise InvalidError(f'cannot be written to: "{nearest}" is not a directory')
    try:  # asking is not enough: some places refuse even those who have every permission
        import tempfile  # late, as most runs have no path to try

        Path(tempfile.mkdtemp(prefix=".opscope-", dir=nearest)).rmdir()
    except OSError as error:
        raise InvalidError(f'cannot be written to: {why(error)} in "{nearest}"') from None
    return path


def file_name(text: str) -> str:
    """A name that a file system accepts as one directory or file."""
    if "\0" in text:
        raise InvalidError("must not contain a NUL character")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise InvalidError("holds a character that no file name can hold") from None
    if size > NAME_BYTES:
        raise InvalidError(
            f'"{text[:20]}…" is a name of {size} bytes; at most {NAME_BYTES} are allowed'
        )
    return text


def _check_names(text: str) -> None:
    for name in text.split("/"):
        file_name(name)


def is_file(path: Path) -> bool:
    """Tell whether there is a file of this name; text that cannot be a path is none."""
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False

"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file over what was there."""
    _draft(path, content).replace(path)


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
        """The file appears, with this content."""
        with open(self._draft, "r+b", buffering=0) as file:
            file.write(content)
            file.truncate(len(content))
        self._draft.replace(self._path)

    def give_back(self) -> None:
        """It is not needed."""
        self._draft.unlink(missing_ok=True)


def _draft(path: Path, content: bytes | memoryview) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(content)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft

"""Copies of the user's source files, so that a run still shows the lines it ran."""

from __future__ import annotations

import linecache
from pathlib import Path

from opscope.atomic_files import write_whole
from opscope.events import Stack
from opscope.messages import say_once
from opscope.rundir.layout import SOURCES, copied_source

FILE_LIMIT = 1 << 20
TOTAL_LIMIT = 64 << 20


class SourceCopies:
    """Copies each file that appears in a user frame once."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._seen: set[str] = set()
        self._copied = 0
        (run / SOURCES).mkdir(exist_ok=True)

    def add(self, stack: Stack) -> None:
        """Copy the files of the user's frames of a stack."""
        for frame in stack.frames:
            if frame.user and frame.file not in self._seen:
                self._seen.add(frame.file)
                self._copy(frame.file)

    def _copy(self, file: str) -> None:
        content = _content(file)
        if content is None or not self._fits(file, len(content)):
            return
        write_whole(copied_source(self._run, file), content)

    def _fits(self, file: str, size: int) -> bool:
        if size > FILE_LIMIT:
            say_once(f"{file} is larger than {FILE_LIMIT >> 20} MiB and is not copied to the run")
            return False
        self._copied += size
        if self._copied > TOTAL_LIMIT:
            say_once(f"more than {TOTAL_LIMIT >> 20} MiB of source files; the rest is not copied")
            return False
        return True


def _content(file: str) -> bytes | None:
    """A file's bytes, or the lines that a notebook registered under its name."""
    try:
        return Path(file).read_bytes()
    except OSError:
        text = "".join(linecache.getlines(file))
        return text.encode("utf-8", "backslashreplace") or None

"""The process that writes a dump, looked at from outside."""

from __future__ import annotations

import time
from pathlib import Path


def writer_pid(path: Path) -> int:
    """The process that writes the dump below this path."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_writer(entry, str(path).encode()):
            return int(entry.name)
    raise AssertionError("no process writes there")


def _is_writer(entry: Path, path: bytes) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
    except OSError:
        return False
    return b"opscope.dump.transport.worker" in command and path in command


def wait_for(condition: object, seconds: float = 20) -> bool:
    """Whether a condition came true in time."""
    due = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > due:
            return False
        time.sleep(0.01)
    return True

"""Programs in a terminal of their own, of a chosen width."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Typed(NamedTuple):
    """What a command ended with, what the terminal got, and when it got something first."""

    code: int
    text: str
    first: float


def in_terminal(
    words: Sequence[str | Path],
    cwd: Path,
    env: Mapping[str, str],
    columns: int = 80,
    until: str = "",
    timeout: float = 120,
) -> Typed:
    """Run a program on a terminal; Ctrl-C is typed when it has printed `until`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        list(map(str, words)),
        cwd=cwd,
        env=dict(env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    text, first, has_typed = b"", 0.0, False
    try:
        while part := _read(ours, began + timeout - time.monotonic()):
            first = first or time.monotonic() - began
            text += part
            if until and not has_typed and until.encode() in text:
                os.killpg(process.pid, signal.SIGINT)
                has_typed = True
        code = process.wait(10)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        os.close(ours)
    return Typed(code, text.decode(errors="replace").replace("\r\n", "\n"), first)


def _read(terminal: int, seconds: float) -> bytes:
    """What comes next; nothing at the end, or after so many seconds."""
    if not select.select([terminal], [], [], max(seconds, 0))[0]:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody has it open any more
        return b""

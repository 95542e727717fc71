"""The witness: exports what a process leaves in its ring, when that process is gone or hangs.

python -m opscope.record.witness FOLDER PID
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.locks import one_at_a_time
from opscope.native import shared
from opscope.record.death import STACKS_FILE
from opscope.record.export import export_if_left, export_left_behind
from opscope.record.in_use import is_in_use
from opscope.record.places import FACTS_FILE, IN_RUN, read_json
from opscope.record.reading import RingReader
from opscope.record.ring import RING_FILE
from opscope.regular import is_file
from opscope.rundir.layout import SERVER_FILE

_PATIENCE_S = 30.0
_PAUSE_S = 0.02
_SENDING_S = 120.0


def main(words: list[str]) -> None:
    """Wait for the end, then export."""
    folder, pid = Path(words[0]), int(words[1])
    with contextlib.suppress(OpscopeError, OSError, subprocess.TimeoutExpired):
        markers = RingReader.open(folder / RING_FILE).markers
        if markers and markers[-1].kind == shared.MARKER_HANG:
            ask_for_stacks(folder, pid)
            with one_at_a_time(folder, _PATIENCE_S):
                if _hangs(folder):  # it may have gone on since
                    export_left_behind(folder)
        else:
            _await_end(folder, pid)
            export_if_left(folder)
            _send(folder)


def _hangs(folder: Path) -> bool:
    """Tell whether no operator has run since a hang was noted."""
    ring = RingReader.open(folder / RING_FILE)
    last = ring.markers[-1]
    return last.kind == shared.MARKER_HANG and last.detail == ring.number("head")


def _await_end(folder: Path, pid: int) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while is_in_use(folder, pid) and time.monotonic() < give_up:
        time.sleep(_PAUSE_S)


def _send(folder: Path) -> None:
    """Have the recording sent to the server on another machine that copies the run, if any."""
    rank, base, run = folder.parents[:3]
    match = re.fullmatch(r"rank_([0-9]{1,9})", rank.name)
    if base.name == IN_RUN and match and is_file(run / rank.name / SERVER_FILE):
        words = [sys.executable, "-m", "opscope.live.bequest", str(run), match[1]]
        subprocess.run(words, timeout=_SENDING_S, check=False)


def ask_for_stacks(folder: Path, pid: int) -> None:
    """Have a process that may be stuck write the stacks of its threads."""
    number = read_json(folder / FACTS_FILE).get("stack_signal")
    file = folder / STACKS_FILE
    if not isinstance(number, int) or not number or not file.exists():
        return
    before = file.stat().st_size
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        give_up = time.monotonic() + 1.0
        size = before
        while time.monotonic() < give_up:
            time.sleep(0.05)
            now = file.stat().st_size
            if now != before and now == size:
                return
            size = now


if __name__ == "__main__":
    main(sys.argv[1:])

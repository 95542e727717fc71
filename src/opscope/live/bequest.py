"""A note that a rank leaves to whoever exports its recording: the server that is to have it.

A rank that dies by a signal cannot send anything itself. The witness of its death makes the files,
and then this program sends them, as the rank would have done.

python -m opscope.live.bequest RUN RANK
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from opscope.access_token import own_token
from opscope.atomic_files import write_whole
from opscope.errors import OpscopeError
from opscope.live.link import FIRST_S, Link
from opscope.live.run_files import FileVerbs, RunFiles
from opscope.rundir.jsonlines import encode, read_object
from opscope.rundir.layout import SERVER_FILE, rank_directory


class Bequest:
    """The note in a rank's folder that says which server copies it."""

    def __init__(self, run: Path, hello: dict[str, Any]) -> None:
        self._hello = hello
        self._file = rank_directory(run, int(hello["rank"])) / SERVER_FILE

    def write(self, address: str) -> None:
        """Note where the server is, and how the rank has introduced itself."""
        with contextlib.suppress(OSError):
            write_whole(self._file, encode({"address": address, "hello": self._hello}))

    def remove(self) -> None:
        """Take the note away: the rank has sent everything itself."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def send_left_behind(run: Path, rank: int) -> bool:
    """Let the server have what a rank that is gone has left; returns whether it has all of it."""
    file = rank_directory(run, rank) / SERVER_FILE
    note = read_object(file) or {}
    address, hello = note.get("address"), note.get("hello")
    if not isinstance(address, str) or not isinstance(hello, dict):
        return False

    def answer(verb: str, args: dict[str, Any]) -> Any:
        if verb not in files.verbs:
            raise OpscopeError("this rank has ended")
        return files.verbs[verb](args)

    link = Link(lambda: address, own_token(), hello, run, answer, lambda here, watchers: None)
    files = FileVerbs(RunFiles(run, rank), link.caught_up.set)
    link.start()
    if link.connected.wait(FIRST_S):
        link.hand_over_rest()
    link.close()
    if link.caught_up.is_set():
        file.unlink(missing_ok=True)
    return link.caught_up.is_set()


if __name__ == "__main__":
    send_left_behind(Path(sys.argv[1]), int(sys.argv[2]))

"""The recordings that a server shows: those of its runs, and those it is given; opened once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.read.recorded import Recorded, signature_of
from opscope.rundir.layout import run_key
from opscope.server.library import Library

_OPEN = 2
"""Recordings that are kept: each rank has a ring of about 11 MB."""
_FRESH_S = 2.0
"""The age that one may have whose process is still there."""


class Shelf:
    """Finds recordings by id: that of a run, or of a path that was given."""

    def __init__(self, library: Library, given: Sequence[Path] = ()) -> None:
        self._library = library
        self._given = {run_key(path): path for path in given}
        self._opened: OrderedDict[str, tuple[Recorded, float]] = OrderedDict()
        self._lock = threading.Lock()

    def run_of(self, number: str) -> str:
        """The id of the run a recording belongs to; empty if it stands alone."""
        return "" if number in self._given else number

    def open(self, number: str) -> Recorded:
        """The recording with an id, as it is now; an error if there is none."""
        path = self._given.get(number) or self._library.paths().get(number)
        if path is None:
            raise OpscopeError(f"there is no recording {number} here")
        with self._lock:
            recorded, opened = self._opened.get(number, (None, 0.0))
            if recorded is None or self._is_old(recorded, opened):
                recorded, opened = Recorded(path), time.monotonic()
            self._opened[number] = recorded, opened
            self._opened.move_to_end(number)
            while len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        return recorded

    def _is_old(self, recorded: Recorded, opened: float) -> bool:
        if recorded.signature != signature_of(recorded.path):
            return True
        return recorded.is_alive and time.monotonic() - opened > _FRESH_S

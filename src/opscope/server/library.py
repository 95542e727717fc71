"""The recordings that a server shows: by id, opened once, followed while they are written."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from opscope.analysis.opened import Opened
from opscope.errors import OpscopeError
from opscope.read.dump_recording import DumpRecording
from opscope.read.find import recordings_in
from opscope.read.reader import open_recording
from opscope.read.run import Run
from opscope.read.state import RUNNING
from opscope.rundir.layout import run_key
from opscope.views.rank_view import RankView
from opscope.views.source_view import nodes_by_line

_OPEN = 4
"""Recordings that are kept open."""
_FRESH_S = 0.25
"""The age that an answer about a recording that is being written may have."""


class LibraryEntry:
    """A recording with its views; `refresh` follows one that is being written."""

    def __init__(self, path: Path) -> None:
        self.recording: Run | DumpRecording = open_recording(path)
        self.reader = Opened(self.recording)
        self._views: dict[int, RankView] = {}
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._is_over = False

    @property
    def ranks(self) -> list[int]:
        """The ranks there are."""
        return self.reader.ranks

    def view(self, rank: int) -> RankView:
        """One rank; an error names those there are."""
        with self._lock:
            if rank not in self._views:
                self._views[rank] = RankView(self.reader, rank)
            return self._views[rank]

    def refresh(self, at_once: bool = False) -> None:
        """Read what has been written since, if that may be much by now."""
        with self._lock:
            is_fresh = not at_once and time.monotonic() - self._looked < _FRESH_S
            if self._is_over or is_fresh:
                return
            over = not self.recording.state.startswith(RUNNING)
            self.reader.refresh()
            for number in tuple(self._views):
                self._views[number].forget()
            if self.recording.kind == "dump":
                self._views.clear()
            self._looked = time.monotonic()
            self._is_over = over  # what was written last has been read now


class Library:
    """Finds recordings in some directories, or just those that it is given."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = list(places)
        self._opened: OrderedDict[str, LibraryEntry] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, place: Path) -> str:
        """Show this recording too; returns its id."""
        with self._lock:
            if place not in self._places:
                self._places.insert(0, place)
        return run_key(place)

    def paths(self) -> dict[str, Path]:
        """All recordings by id, the latest first."""
        found: dict[str, Path] = {}
        for place in tuple(self._places):
            for path in reversed(recordings_in(place)):
                found.setdefault(run_key(path), path)
        return found

    def recording(self, number: str) -> Run | DumpRecording:
        """The recording with an id, for a line about it: the open ones stay open."""
        with self._lock:
            opened = self._opened.get(number)
        return opened.recording if opened is not None else open_recording(self._path(number))

    def _path(self, number: str) -> Path:
        path = self.paths().get(number)
        if path is None:
            raise OpscopeError(f"there is no run {number} here")
        return path

    def read_ahead(self, number: str) -> None:
        """Read in the background what a first view asks for, while a browser starts."""
        threading.Thread(target=self._read_ahead, args=(number,), daemon=True).start()

    def _read_ahead(self, number: str) -> None:
        with contextlib.suppress(OpscopeError):
            opened = self.open(number)
            for rank in opened.ranks[:1]:
                view = opened.view(rank)
                step = view.step_at(None)
                view.numbers(step)
                view.scope_numbers(step)
                nodes_by_line(view)

    def open(self, number: str) -> LibraryEntry:
        """The recording with an id, as it is now; an error if there is none."""
        with self._lock:
            opened = self._opened.get(number)
            if opened is None:
                opened = self._opened[number] = LibraryEntry(self._path(number))
                while len(self._opened) > _OPEN:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(number)
        opened.refresh()
        return opened

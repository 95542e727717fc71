"""Writes notes on what did no harm to the run directory: skipped batches, masked values."""

from __future__ import annotations

from pathlib import Path

from opscope.judge.notes import SKIPPED, Note
from opscope.judge.origin.verdict import shown_place
from opscope.messages import say_once
from opscope.rundir import layout
from opscope.rundir.jsonlines import JsonLines


class NoteLog:
    """Appends notes to `notes.jsonl` of a rank, which is made with the first."""

    def __init__(self, run: Path | None, limit: int = 16 << 20) -> None:
        self.skipped = 0
        """The number of batches that the script has skipped."""
        self._run = run
        self._limit = limit
        self._directory: Path | None = None
        self._lines: JsonLines | None = None

    def open(self, rank: int) -> None:
        """Take in the rank."""
        if self._run is not None:
            self._directory = layout.rank_directory(self._run, rank)

    def add(self, note: Note) -> None:
        """Write a note; the first batch that is skipped is told of."""
        if note.kind == SKIPPED:
            self.skipped += 1
            place = f" ({shown_place(note.where)})" if note.where else ""
            say_once(f"{note.moment}: {note.message}{place}; this is not a hit", "skipped batch")
        if self._directory is None:
            return
        try:
            if self._lines is None:
                self._lines = JsonLines(self._directory / layout.NOTES, self._limit)
            self._lines.append(note.to_json())
        except OSError as error:
            self._directory = None
            say_once(f"cannot write notes: {error.strerror or error}")

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

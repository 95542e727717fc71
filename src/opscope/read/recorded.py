"""Opens what the recorder has left of a training: a report and, if it is there, the ring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.errors import OpscopeError
from opscope.record.export import export_is_due, read_stacks
from opscope.record.in_use import is_in_use
from opscope.record.places import REPORT_FILE, recordings
from opscope.record.post_mortem import report_of
from opscope.record.reading import RingReader
from opscope.record.ring import RING_FILE
from opscope.regular import is_file

Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class RecordedRank:
    """One process: what its report says, and all that it left beside it."""

    place: int
    """Among the ranks of the recording; processes may say that they are the same rank."""
    report: dict[str, Any]
    ring: RingReader | None
    stacks: str

    @property
    def number(self) -> int:
        """The rank, as it is called."""
        found = self.report.get("rank")
        return found if isinstance(found, int) else self.place

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The facts of the latest steps, oldest first: the ring has more of them."""
        if self.ring is not None:
            return self.ring.steps
        found = self.report.get("steps")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


class Recorded:
    """The recordings at a path, as they are when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.report = report_of(path)
            found = zip(self.report["ranks"], recordings(path), strict=True)
            self.ranks = [
                RecordedRank(place, report, _ring_in(folder), read_stacks(folder))
                for place, (report, folder) in enumerate(found)
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OpscopeError(f"the recording in {path} is damaged: {error!r}") from error
        self.signature = signature_of(path)  # by now, as opening it may have exported it

    @property
    def is_alive(self) -> bool:
        """True if one of its processes is still there, and may write more."""
        found = zip(self.ranks, recordings(self.path), strict=False)
        return any(
            each.ring is not None and is_in_use(folder, each.ring.pid) for each, folder in found
        )

    def rank(self, place: int) -> RecordedRank:
        """The rank at a place."""
        if not 0 <= place < len(self.ranks):
            raise OpscopeError(f"there is no rank at place {place}: there are {len(self.ranks)}")
        return self.ranks[place]


def has_recording(path: Path) -> bool:
    """Tell whether a training has left something: exported, or a ring whose process is gone."""
    return any(
        is_file(folder / REPORT_FILE) or export_is_due(folder) for folder in recordings(path)
    )


def signature_of(path: Path) -> Signature:
    """Another one when a recording has changed, apart from a ring that is being written."""
    found = []
    for folder in recordings(path):
        for name in (REPORT_FILE, RING_FILE):
            try:
                about = (folder / name).stat()
            except OSError:
                continue
            found.append((str(folder / name), about.st_ino, about.st_mtime_ns))
    return tuple(found)


def _ring_in(folder: Path) -> RingReader | None:
    file = folder / RING_FILE
    return RingReader.open(file) if is_file(file) else None

"""The report on recordings as they are found: exported, or raw rings that a crash has left."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from opscope.errors import OpscopeError
from opscope.native import shared
from opscope.record.export import cause_of, export_if_left, read_stacks
from opscope.record.places import FACTS_FILE, REPORT_FILE, read_json, recordings
from opscope.record.rank_report import REPORT_FORMAT, rank_report
from opscope.record.ranks import compare
from opscope.record.reading import RingReader
from opscope.record.report_form import is_sound
from opscope.record.ring import RING_FILE
from opscope.regular import is_file


def report_of(path: Path) -> dict[str, Any]:
    """Report on all recordings at a path, after exporting those that were not yet and can be."""
    if not path.exists():
        raise OpscopeError(f"{path} does not exist")
    folders = recordings(path)
    if not folders:
        raise OpscopeError(
            f"{path} holds no recording: the recorder leaves one when training ends abnormally, "
            "or always in mode 2"
        )
    return compare([_rank(folder) for folder in folders])


def read_stacks_of(path: Path) -> dict[int, str]:
    """The stacks of each rank, by its place in the report."""
    return {place: read_stacks(folder) for place, folder in enumerate(recordings(path))}


def export_all(path: Path) -> None:
    """Export whatever processes have left behind at a path without having done so."""
    for folder in recordings(path):
        with contextlib.suppress(OSError, OpscopeError):
            export_if_left(folder)


def _rank(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, OpscopeError):
        export_if_left(folder)
    written = read_json(folder / REPORT_FILE)
    ring = RingReader.open(folder / RING_FILE) if is_file(folder / RING_FILE) else None
    if ring is None or (ring.state == shared.RING_EXPORTED and is_sound(written)):
        return _checked(written, folder)
    facts = read_json(folder / FACTS_FILE)
    cause, exception = cause_of(ring, facts, folder)
    now_ns = time.time_ns() if cause.kind in ("running", "hang") else None
    return rank_report(ring, cause, facts, exception, now_ns)


def _checked(written: dict[str, Any], folder: Path) -> dict[str, Any]:
    if written.get("format") != REPORT_FORMAT:
        raise OpscopeError(f"{folder / REPORT_FILE} is no report of this version of opscope")
    if not is_sound(written):
        raise OpscopeError(f"{folder / REPORT_FILE} is damaged, and there is no ring beside it")
    return written

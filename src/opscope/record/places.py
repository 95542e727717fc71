"""The places of recordings, and the files a recording consists of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope.record.ring import RING_FILE
from opscope.regular import entries, is_directory, is_file, read_regular

FACTS_FILE = "facts.json"
REPORT_FILE = "report.json"
EXCEPTION_FILE = "exception.json"
LOCK_FILE = "lock"
"""Held by the process that records."""
STATUS_FILE = "status.json"
"""The exit status that the kernel told."""
IN_RUN = "recorder"
"""The folder of recordings in a run directory."""
_RANK = re.compile(r"rank_([0-9]{1,9})(\.[0-9]+)?")


def rank_folder(base: Path, rank: int, process: int = 0) -> Path:
    """Return the folder of a rank's recording; `process` numbers others of the same rank."""
    return base / (f"rank_{rank}.{process}" if process else f"rank_{rank}") / "rdr"


def recordings(path: Path) -> list[Path]:
    """The folders of recordings at a path: one rank's, or those of a run or of an export path."""
    if path.name == RING_FILE and is_file(path):
        return [path.parent]
    if _is_recording(path):
        return [path]
    for base in (path, path / IN_RUN):
        found = sorted(_below(base))
        if found:
            return [folder for _, folder in found]
    return [path / "rdr"] if _is_recording(path / "rdr") else []


def _below(base: Path) -> Iterator[tuple[int, Path]]:
    if not is_directory(base):
        return
    for entry in entries(base):
        match = _RANK.fullmatch(entry.name)
        if match and _is_recording(entry / "rdr"):
            yield int(match[1]), entry / "rdr"


def _is_recording(folder: Path) -> bool:
    return is_directory(folder) and any(is_file(folder / name) for name in (RING_FILE, REPORT_FILE))


def read_json(path: Path) -> dict[str, Any]:
    """An object in a file; empty if there is none."""
    try:
        found = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

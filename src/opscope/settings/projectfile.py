"""Settings of a project: `opscope.toml`, or `[tool.opscope]` in `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.errors import MISSING, Problem
from opscope.regular import read_regular

OWN_FILE, SHARED_FILE = "opscope.toml", "pyproject.toml"
_TABLE = "tool.opscope"


@dataclass(frozen=True)
class ProjectFile:
    """The settings of a project as written; `prefix` goes before a key in a problem."""

    file: Path | None = None
    prefix: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def read_project_file(folder: Path) -> ProjectFile:
    """The settings nearest to a folder, in it or in one of its parents."""
    for parent in (folder, *folder.parents):
        found = _read_own(parent / OWN_FILE) or _read_shared(parent / SHARED_FILE)
        if found is not None:
            return found
    return ProjectFile()


def _read_own(file: Path) -> ProjectFile | None:
    if not file.is_file():
        return None
    try:
        return ProjectFile(file, "", _parse(read_regular(file, follow=True)))
    except (OSError, ValueError, RecursionError) as error:
        return _failed(file, error)


def _read_shared(file: Path) -> ProjectFile | None:
    """A pyproject.toml that does not speak of opscope is none of our business, even if broken."""
    try:
        content = read_regular(file, follow=True)
    except OSError:
        return None
    if b"opscope" not in content:
        return None
    try:
        data = _parse(content)
    except (ValueError, RecursionError) as error:
        return _failed(file, error) if _TABLE.encode() in content else None
    return _own_table(file, data)


def _own_table(file: Path, data: Mapping[str, Any]) -> ProjectFile | None:
    tool = data.get("tool")
    table = tool.get("opscope") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        problem = Problem(str(file), _TABLE, table, "must be a table")
        return ProjectFile(file, problems=(problem,))
    return ProjectFile(file, f"{_TABLE}.", table)


def _parse(content: bytes) -> dict[str, Any]:
    import tomllib  # where there is no such file it is not needed

    return tomllib.loads(content.decode("utf-8"))


def _failed(file: Path, error: Exception) -> ProjectFile:
    if isinstance(error, OSError):
        reason = f"cannot be read: {error.strerror}"
    elif isinstance(error, UnicodeDecodeError):
        reason = f"is not UTF-8 text: the byte at offset {error.start} is invalid"
    elif isinstance(error, RecursionError):
        reason = "is nested too deeply"
    else:
        reason = f"is not TOML: {error}"
    return ProjectFile(file, problems=(Problem(str(file), "", MISSING, reason),))

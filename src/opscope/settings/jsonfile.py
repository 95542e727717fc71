"""Reading a JSON config file, with every way it can fail in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.errors import MISSING, Problem
from opscope.regular import read_regular

_TOO_DEEP = "is nested too deeply"


@dataclass(frozen=True)
class JsonFile:
    """A config file as read: `data` is None when there is nothing to go on with."""

    file: str
    text: str = ""
    data: dict[str, Any] | None = None
    problems: tuple[Problem, ...] = ()


def read_json_file(file: str, folder: Path | None = None) -> JsonFile:
    """Read an object from a JSON file; a relative name is taken from `folder`."""
    try:
        text = read_regular((folder or Path()) / file, follow=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _failed(file, f"is not UTF-8 text: the byte at offset {error.start} is invalid")
    except (OSError, ValueError) as error:
        return _failed(file, _why_unreadable(error))
    return _parse(file, text)


def _parse(file: str, text: str) -> JsonFile:
    try:
        data = json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return _failed(file, f"is not JSON: {error.msg} at {where}", text)
    except RecursionError:
        return _failed(file, _TOO_DEEP, text)
    except ValueError as error:
        return _failed(file, f"is not usable: {error}", text)
    if not isinstance(data, dict):
        return _failed(file, "must hold a JSON object, { ... }, at the top", text)
    try:
        return JsonFile(file, text, data, tuple(_repeated(file, data, "")))
    except RecursionError:
        return _failed(file, _TOO_DEEP, text)


class _Object(dict[str, Any]):
    """A JSON object that remembers the keys that were written more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in counts.items() if count > 1]


def _repeated(file: str, value: object, prefix: str) -> Iterator[Problem]:
    if isinstance(value, _Object):
        for key in value.repeated:
            yield Problem(file, prefix + key, MISSING, "is written more than once; keep one")
        for key, inner in value.items():
            yield from _repeated(file, inner, f"{prefix}{key}.")


def _failed(file: str, message: str, text: str = "") -> JsonFile:
    return JsonFile(file, text, None, (Problem(file, "", MISSING, message),))


def _why_unreadable(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "is a directory; name a JSON file"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {reason}"

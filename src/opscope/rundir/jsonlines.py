"""JSON as opscope writes it, and files of one JSON object per line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope.messages import say_once

_EXACT_LIMIT = 1 << 53


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON text; NaN, infinities and integers beyond 2**53 become strings.

    >>> dumps([float("nan"), -float("inf"), 2**60])
    '["NaN", "-Infinity", "1152921504606846976"]'
    """
    return json.dumps(_portable(value), ensure_ascii=False, indent=indent, default=str)


def encode(value: Any, indent: int | None = None) -> bytes:
    """JSON as the bytes of a text file."""
    return _as_bytes(dumps(value, indent))


def encode_plain(value: Any) -> bytes:
    """The same of a value whose numbers are small integers and whose keys are text.

    There is one for every operator of a long step, and looking into each costs ten times as much.
    """
    return _as_bytes(_PLAIN.encode(value))


_PLAIN = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=str)


def _as_bytes(text: str) -> bytes:
    return (text + "\n").encode("utf-8", "backslashreplace")


class JsonLines:
    """Appends objects to a file, each as one line in one write; stops at `limit` bytes."""

    def __init__(self, path: Path, limit: int = 0) -> None:
        self._path = path
        self._limit = limit
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._written = 0
        self._full = False

    def append(self, value: dict[str, Any]) -> bool:
        """Write one line; false if the file has reached its limit."""
        return not self._full and self._write(encode(value))

    def append_plain(self, value: dict[str, Any]) -> bool:
        """The same of a value that `encode_plain` takes."""
        return not self._full and self._write(encode_plain(value))

    def _write(self, line: bytes) -> bool:
        self._written += len(line)
        if self._limit and self._written > self._limit:
            self._full = True
            say_once(f"{self._path} has reached {self._limit} bytes; it is not continued")
            return False
        while line:  # once, unless the disk is full: then the second write says so
            line = line[os.write(self._file, line) :]
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that may still be written to: an unfinished last line is left out."""
    yield from LineTail(path).read()


class LineTail:
    """Follows a file of lines: each `read` gives those that were finished since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._number = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """The objects of the new lines; what was finished in the meantime comes the next time."""
        lines = self._new_lines()
        at_once = _parse_all(lines)
        if at_once is not None:
            self._number += len(lines)
            yield from at_once
            return
        for line in lines:
            self._number += 1
            value = parse_object(line)
            if value is None:
                say_once(f"{self._path}:{self._number} is damaged; the line is left out")
            else:
                yield value

    def _new_lines(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


def _parse_all(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """The objects of sound lines, in a third of the time; None if any line is not one."""
    try:
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        return None
    is_sound = len(values) == len(lines) and all(isinstance(value, dict) for value in values)
    return values if is_sound else None


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, None if there is no such file or no object in it."""
    try:
        return parse_object(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def parse_object(text: bytes) -> dict[str, Any] | None:
    """The object in a JSON text, None if it is damaged or something else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _portable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _nonfinite(value)
    if isinstance(value, int):
        return value if -_EXACT_LIMIT <= value <= _EXACT_LIMIT else str(value)
    if isinstance(value, dict):
        return {str(key): _portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    return value


def _nonfinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"

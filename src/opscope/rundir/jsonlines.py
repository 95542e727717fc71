"""JSON as opscope writes it, and files of one JSON object per line."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from opscope.messages import say_once
from opscope.regular import lines_in, open_regular, read_regular, why
from opscope.wording import counted

_EXACT_LIMIT = 1 << 53
_DEPTH = 50
_AT_ONCE = 4096
"""So many lines are taken in together."""
_DECODER = json.JSONDecoder()


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON text; NaN, infinities and integers beyond 2**53 become strings.

    >>> dumps([float("nan"), -float("inf"), 2**60])
    '["NaN", "-Infinity", "1152921504606846976"]'
    """
    return json.dumps(portable(value), ensure_ascii=False, indent=indent, default=str)


def encode(value: Any, indent: int | None = None) -> bytes:
    """JSON as the bytes of a text file."""
    return _as_bytes(dumps(value, indent))


def encode_plain(value: Any) -> bytes:
    """The same of a value whose numbers are finite and exact in JSON and whose keys are text.

    There is one for every operator of a long step, and looking into each costs ten times as much.
    """
    return _as_bytes("".join(_encode_plain(value, 0)))


def _plain_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Make once the encoder that `json.JSONEncoder` makes anew for each value."""
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    quoted = json.encoder.encode_basestring
    encoder: Callable[[Any, int], Iterable[str]]
    encoder = make(None, str, quoted, None, ": ", ", ", False, False, True)
    return encoder


_encode_plain = _plain_encoder()


def _as_bytes(text: str) -> bytes:
    return (text + "\n").encode("utf-8", "backslashreplace")


class JsonLines:
    """Appends objects to a file, each as one line in one write; stops at `limit` bytes."""

    def __init__(self, path: Path, limit: int = 0) -> None:
        self._path = path
        self._limit = limit
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._file).st_size
        """The number of bytes that are in it, or would be."""
        self._full = False

    def append(self, value: dict[str, Any]) -> bool:
        """Write one line; false if the file has reached its limit."""
        return not self._full and self._write(encode(value))

    def append_plain(self, value: dict[str, Any]) -> bool:
        """The same of a value that `encode_plain` takes."""
        return not self._full and self._write(encode_plain(value))

    def _write(self, line: bytes) -> bool:
        self.size += len(line)
        if self._limit and self.size > self._limit:
            self._full = True
            say_once(f"{self._path} has reached {self._limit} bytes; it is not continued")
            return False
        while line:  # once, unless the disk is full: then the second write says so
            line = line[os.write(self._file, line) :]
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class LineTail:
    """Follows a file of lines: each time it gives those that were finished since the last.

    A file that has been replaced by another is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._last = b""
        self._number = 0
        self.complaints = Complaints(path)
        """The place to say what is wrong with the file."""

    def numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of the new lines, each with the number of its line."""
        new = self._new_lines()
        while lines := list(itertools.islice(new, _AT_ONCE)):
            at_once = _parse_all(lines)
            for line, value in zip(lines, at_once or map(parse_object, lines), strict=True):
                self._number += 1
                self._offset += len(line)
                self._last = line
                if value is None:
                    self.complaints.add(f"line {self._number}: is no JSON object")
                else:
                    yield self._number, value
        self.complaints.end()

    def _new_lines(self) -> Iterator[bytes]:
        """The lines that are finished, with their ends; those before a fault if there is one."""
        try:
            with open(open_regular(self._path), "rb") as file:
                self._seek(file)
                for line in lines_in(file):
                    if not line.endswith(b"\n"):
                        break
                    yield line
        except FileNotFoundError:
            return
        except OSError as error:
            self.complaints.add(why(error))

    def _seek(self, file: BinaryIO) -> None:
        """Go behind the line that was read last, or to the beginning if it is not there."""
        file.seek(self._offset - len(self._last))
        if file.read(len(self._last)) != self._last:
            self._offset, self._number, self._last = 0, 0, b""
            file.seek(0)


def _parse_all(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """The objects of sound lines, in a third of the time; None if any line is not one."""
    try:
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        return None
    is_sound = len(values) == len(lines) and all(isinstance(value, dict) for value in values)
    return values if is_sound else None


class Complaints:
    """Says what is wrong with a file, and that it is left out; not of every line of many."""

    SHOWN = 3

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def add(self, text: str) -> None:
        """Count one more thing that is wrong, and tell of the first few."""
        self._count += 1
        if self._count <= self.SHOWN:
            say_once(f"{self._path} {text}; left out")

    def end(self) -> None:
        """Say how much was not told of, now that all was read."""
        if self._count > self.SHOWN:
            more = counted(self._count - self.SHOWN, "more line is", "more lines are")
            say_once(f"{self._path}: {more} damaged; left out")


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, None if there is no such file or no object in it."""
    try:
        value = parse_object(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        say_once(f"{path} {why(error)}; left out")
        return None
    if value is None:
        say_once(f"{path}: is no JSON object; left out")
    return value


def parse_object(text: bytes) -> dict[str, Any] | None:
    """The object in a JSON text, None if it is damaged, something else or nested too deeply."""
    try:
        value = _DECODER.decode(text.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _is_flat(text, value) else None


def _is_flat(text: bytes, value: Any) -> bool:
    """Tell whether a value can be walked through; most have too few parts to be deep."""
    return text.count(b"[") + text.count(b"{") < _DEPTH or _fits(value, _DEPTH)


def _fits(value: Any, depth: int) -> bool:
    if not isinstance(value, (list, dict)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_fits(part, depth - 1) for part in parts)


def portable(value: Any) -> Any:
    """A value that JSON can hold: see `dumps`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _nonfinite(value)
    if isinstance(value, int):
        return value if -_EXACT_LIMIT <= value <= _EXACT_LIMIT else str(value)
    if isinstance(value, dict):
        return {str(key): portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    return value


def with_floats(value: Any) -> Any:
    """Return what `portable` made of a value, with NaN and infinities as numbers again."""
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def _nonfinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"

"""File names of the dump: safe, unique in their graph, short enough for the file system."""

from __future__ import annotations

import hashlib
import re

MAX_NAME_BYTES = 255
_UNSAFE = re.compile(r"[\s/\\.\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def safe(text: str) -> str:
    """The text with everything that a part of a file name must not hold as `_`."""
    return _UNSAFE.sub("_", text) or "_"


class NameBook:
    """Gives every operator and parameter of a graph a file name part that no other one has."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, str], tuple[str, str]] = {}

    def op_name(self, graph: int, op_type: str, full_name: str) -> str:
        """The full name made safe; if another operator has that already, with a hash behind it."""
        owner = (op_type, full_name)
        name = plain = safe(full_name)
        size = 8
        while self._owners.setdefault((graph, name), owner) != owner:
            name = f"{plain}~{_hash(f'{op_type} {full_name}', size)}"
            size += 1
        return name


def short_name(name: str, limit: int = MAX_NAME_BYTES) -> str:
    """The name itself if the file system takes it, else a hash of it that is always the same."""
    if len(name) <= limit and name.isascii():
        return name
    if len(name.encode()) <= limit:
        return name
    return f"{_hash(name, 20)}.{name.rpartition('.')[2]}"


def _hash(text: str, size: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:size]

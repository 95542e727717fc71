"""Full names of operators and parameters, from the names that a dump's files have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from opscope.dump.format.execution_order import HEADER
from opscope.dump.format.names import safe
from opscope.messages import say_once
from opscope.names import PARAMETER, type_in
from opscope.read.csv_lines import read_csv


class FullNames:
    """Looks names of files up among the full names that the dump gives elsewhere."""

    def __init__(self, operators: Iterable[str], parameters: Iterable[str] = ()) -> None:
        self._by_safe: dict[str, list[tuple[str, str]]] = {}
        for name in dict.fromkeys(operators):
            self._add(type_in(name), name)
        for name in dict.fromkeys(parameters):
            self._add(PARAMETER, name)

    def _add(self, op_type: str, name: str) -> None:
        self._by_safe.setdefault(safe(name), []).append((op_type, name))

    def find(self, op_type: str, op_name: str) -> str | None:
        """The full name behind the name of a file; None if the dump does not tell."""
        plain, _, digest = op_name.partition("~")
        found = [
            (kind, name)
            for kind, name in self._by_safe.get(plain, ())
            if (kind == PARAMETER) == (op_type == PARAMETER)
        ]
        if digest:
            found = [each for each in found if _hash(each, len(digest)) == digest]
        return found[0][1] if len(found) == 1 else None


def _hash(owner: tuple[str, str], size: int) -> str:
    data = " ".join(owner).encode("utf-8", "backslashreplace")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:size]


def read_order(path: Path) -> list[str]:
    """The operators of a graph in the order they ran; none if the file is not there."""
    read = read_csv(path)
    if read is None:
        return []
    if read.trouble:
        say_once(f"{path} {read.trouble}; left out")
    return [line[0] for line in read.lines if line and line[0] != HEADER]

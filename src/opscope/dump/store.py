"""A rank's directory on disk: what is written where."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.dump import csvtext, metadata, npy
from opscope.dump.execution_order import ExecutionOrder
from opscope.dump.files import TempFiles, append, make_directory
from opscope.dump.manifest import MANIFEST, METADATA, Manifest
from opscope.dump.names import MAX_NAME_BYTES, short_name
from opscope.dump.npy import Array
from opscope.dump.statistic import FILE_NAME, LINE_END, Columns
from opscope.dump.subject import Place, Subject
from opscope.events import Node

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings
    from opscope.stats.row import Row

MAPPING = "mapping.csv"
TEMP = ".tmp"


class Store:
    """Writes the files of one rank. One thread at a time uses it."""

    def __init__(self, root: Path, settings: DumpSettings, manifest: Manifest) -> None:
        self.root = root
        self.manifest = manifest
        self.columns = Columns(settings.statistic_category)
        self._net = root / settings.net_name
        self._temp = TempFiles(root / TEMP)
        self._order = ExecutionOrder(root, self._temp)
        self._directories: dict[Place, str] = {}
        self._lines: dict[Place, list[str]] = {}
        self._headed: set[Place] = set()
        self._described = False
        make_directory(root / TEMP)
        make_directory(root / METADATA)
        self._name_limit = _name_limit(root)
        self._text(f"{METADATA}/data_dump.json", settings.text)
        self._text(f"{METADATA}/config.json", metadata.config_json())
        self.write_manifest()

    def save(self, place: Place, subject: Subject, array: Array) -> None:
        """Write a value's file."""
        directory = self._directory(place)
        name = subject.file_name
        short = short_name(name, self._name_limit)
        if short != name:
            line = f"{short},{csvtext.field(name)}"
            append(f"{directory}/{MAPPING}", csvtext.encode([line], "\n"))
        header, data = npy.buffers(array)
        size = len(header) + array.nbytes
        self._temp.place(f"{directory}/{short}", (header, data), size)
        self.manifest.wrote(place.iteration, size)

    def add_row(
        self, place: Place, subject: Subject, row: Row, digests: Sequence[str] = ()
    ) -> None:
        """Add a value's row; `flush` writes it."""
        line = self.columns.line(subject, row, digests)
        self._lines.setdefault(place, []).append(line)

    def flush(self) -> None:
        """Write the rows that were added."""
        while self._lines:
            place, lines = self._lines.popitem()
            self._write_lines(f"{self._directory(place)}/{FILE_NAME}", place, lines)
            self.manifest.wrote_rows(place.iteration, len(lines))

    def finish(self, iteration: int, complete: bool, orders: Mapping[int, Sequence[Node]]) -> None:
        """Everything of an iteration has been written."""
        self.flush()
        for graph, nodes in orders.items():
            self._order.add(graph, iteration, nodes)
        self._forget(iteration)
        self.manifest.finish_iteration(iteration, complete)
        if self.manifest.is_due():
            self.write_manifest()
        if not self._described:
            self._described = True
            self._text(f"{METADATA}/config.json", metadata.config_json())

    def write_manifest(self) -> None:
        """Write the manifest as it is now."""
        self._text(MANIFEST, self.manifest.to_json())

    def close(self) -> None:
        """Write the last of the manifest and leave nothing temporary behind."""
        self.write_manifest()
        self._temp.remove()

    def _text(self, name: str, text: str) -> None:
        self._temp.place_bytes(self.root / name, text.encode("utf-8", "surrogateescape"))

    def _directory(self, place: Place) -> str:
        directory = self._directories.get(place)
        if directory is None:
            path = self._net / str(place.graph) / str(place.iteration)
            make_directory(path)
            directory = self._directories[place] = str(path)
        return directory

    def _write_lines(self, path: str, place: Place, lines: list[str]) -> None:
        if place in self._headed:
            append(path, csvtext.encode(lines, LINE_END))
            return
        text = csvtext.encode([self.columns.header, *lines], LINE_END)
        self._temp.place_bytes(path, text)
        self._headed.add(place)

    def _forget(self, iteration: int) -> None:
        for place in [each for each in self._directories if each.iteration == iteration]:
            del self._directories[place]


def _name_limit(directory: Path) -> int:
    try:
        return min(os.pathconf(directory, "PC_NAME_MAX"), MAX_NAME_BYTES)
    except (OSError, ValueError):
        return MAX_NAME_BYTES

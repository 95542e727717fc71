"""A rank's directory on disk: what is written where."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.dump import csvtext, npy
from opscope.dump.batch import Batch
from opscope.dump.digest import digest
from opscope.dump.execution_order import ExecutionOrder
from opscope.dump.files import TempFiles, append, make_directory
from opscope.dump.manifest import MANIFEST, METADATA, Manifest
from opscope.dump.names import MAX_NAME_BYTES, short_name
from opscope.dump.npy import Array
from opscope.dump.statistic import FILE_NAME, LINE_END, Columns, Renderer
from opscope.dump.subject import Place, Subject
from opscope.stats.native_cpu import row_of_array

if TYPE_CHECKING:
    from opscope.stats.row import Row

MAPPING = "mapping.csv"
TEMP = ".tmp"


@dataclass(slots=True)
class _Directory:
    """Where the files of one iteration go.

    Temporary files of its values are inside it, because a file system looks for room where a file
    is made: on ext4 a directory for all of them costs several times as much.
    """

    path: str
    temp: TempFiles
    has_temp: bool = False


@dataclass(slots=True)
class _Lines:
    """Lines of a table that are not written yet."""

    text: list[bytes]
    rows: int


class Store:
    """Writes the files of one rank. One thread at a time uses it.

    `owner` keeps its temporary files apart from those of another process.
    """

    def __init__(
        self, root: Path, net_name: str, columns: Columns, manifest: Manifest, owner: str
    ) -> None:
        self.root = root
        self.manifest = manifest
        self.columns = columns
        self.temp = TempFiles(root / TEMP, owner)
        self._owner = owner
        self._net = root / net_name
        self._order = ExecutionOrder(root, self.temp)
        self._directories: dict[Place, _Directory] = {}
        self._renderer = Renderer(columns)
        self._pending: dict[Place, _Lines] = {}
        self._headed: set[Place] = set()
        self._name_limit = _name_limit(root)

    def prepare(self, config: str, description: str) -> None:
        """Write what is known at the start."""
        make_directory(self.temp.directory)
        make_directory(self.root / METADATA)
        self._text(f"{METADATA}/data_dump.json", config)
        self.describe(description)
        self.write_manifest()

    def describe(self, description: str) -> None:
        """Write what is known of the framework and the device."""
        self._text(f"{METADATA}/config.json", description)

    def save(self, place: Place, subject: Subject, array: Array) -> None:
        """Write a value's file."""
        self.write(place, self.path(place, subject), array)

    def path(self, place: Place, subject: Subject) -> str:
        """Where a value's file goes; the directory is there afterwards."""
        directory = self._directory(place)
        if not directory.has_temp:
            make_directory(directory.temp.directory)
            directory.has_temp = True
        return self._path(directory, subject)

    def write(self, place: Place, path: str, array: Array) -> None:
        """Write an array; several threads may do this at once."""
        header, data = npy.buffers(array)
        size = len(header) + array.nbytes
        self._directory(place).temp.place(path, (header, data), size)
        self.manifest.wrote(place.iteration, size)

    def repeat(self, place: Place, path: str, array: Array, saved: str) -> None:
        """Give the file of an array that was saved before a second name."""
        try:
            os.link(saved, path)
        except OSError:
            self.write(place, path, array)
            return
        self.manifest.wrote(place.iteration, npy.size(array))

    def adopt(self, place: Place, subject: Subject, temporary: str, size: int) -> None:
        """Put a value's file that was written elsewhere in its place."""
        self.temp.rename(temporary, self._path(self._directory(place), subject))
        self.manifest.wrote(place.iteration, size)

    def measure(self, place: Place, subject: Subject, array: Array, raw: Array | None) -> None:
        """Add the row of a value, computed here; `raw` are its own bytes if they differ."""
        data = array if raw is None else raw
        digests = [digest(algorithm, data) for algorithm in self.columns.algorithms]
        self.add_row(place, subject, row_of_array(array), digests)

    def add_row(
        self, place: Place, subject: Subject, row: Row, digests: Sequence[str] = ()
    ) -> None:
        """Add the row of a value; `flush` writes it."""
        line = self.columns.line(subject, row, digests)
        self._add_lines(place, csvtext.encode([line], LINE_END), 1)

    def add_rows(self, batch: Batch) -> None:
        """Add rows that are ready; `flush` writes them."""
        self._add_lines(batch.place, self._renderer.lines(batch), len(batch.records))

    def _add_lines(self, place: Place, text: bytes, rows: int) -> None:
        lines = self._pending.setdefault(place, _Lines([], 0))
        lines.text.append(text)
        lines.rows += rows

    def flush(self) -> None:
        """Write the rows that were added."""
        while self._pending:
            place, lines = self._pending.popitem()
            self._write_lines(self._directory(place), place, b"".join(lines.text))
            self.manifest.wrote_rows(place.iteration, lines.rows)

    def order(self, graph: int, names: Sequence[str]) -> None:
        """The order of a graph's operators in a step, when it is another than before."""
        self._order.add(graph, names)

    def finish(self, iteration: int, complete: bool, graphs: Iterable[int]) -> None:
        """Everything of an iteration has been written; these graphs ran in it."""
        self.flush()
        for graph in graphs:
            self._order.captured(graph, iteration)
        for place in [each for each in self._directories if each.iteration == iteration]:
            directory = self._directories.pop(place)
            if directory.has_temp:
                directory.temp.remove()
        self.manifest.finish_iteration(iteration, complete)
        if self.manifest.is_due():
            self.write_manifest()

    def fail(self, failure: str, lost: int) -> None:
        """Say in the manifest that the dump ended early, if that can be written."""
        self.manifest.finish(failure, lost)
        with contextlib.suppress(OSError):
            self.write_manifest()

    def close(self, failure: str, lost: int) -> None:
        """Write the last of the manifest and leave nothing temporary behind."""
        self.manifest.finish(failure, lost)
        with contextlib.suppress(OSError) if failure else contextlib.nullcontext():
            self.write_manifest()
        for temp in (self.temp, *(each.temp for each in self._directories.values())):
            temp.remove()

    def write_manifest(self) -> None:
        """Write the manifest as it is now."""
        self._text(MANIFEST, self.manifest.to_json())

    def _text(self, name: str, text: str) -> None:
        self.temp.place_bytes(self.root / name, text.encode("utf-8", "surrogateescape"))

    def _path(self, directory: _Directory, subject: Subject) -> str:
        name = subject.file_name
        short = short_name(name, self._name_limit)
        if short != name:
            line = f"{short},{csvtext.field(name)}"
            append(f"{directory.path}/{MAPPING}", csvtext.encode([line], "\n"))
        return f"{directory.path}/{short}"

    def _directory(self, place: Place) -> _Directory:
        directory = self._directories.get(place)
        if directory is None:
            path = self._net / str(place.graph) / str(place.iteration)
            make_directory(path)
            temp = TempFiles(path / TEMP, self._owner)
            directory = self._directories[place] = _Directory(str(path), temp)
        return directory

    def _write_lines(self, directory: _Directory, place: Place, lines: bytes) -> None:
        path = f"{directory.path}/{FILE_NAME}"
        if place in self._headed:
            append(path, lines)
            return
        header = csvtext.encode([self.columns.header], LINE_END)
        self.temp.place_bytes(path, header + lines)
        self._headed.add(place)


def _name_limit(directory: Path) -> int:
    """The longest file name that the file system takes, in bytes."""
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    try:
        return min(os.pathconf(existing, "PC_NAME_MAX"), MAX_NAME_BYTES)
    except (OSError, ValueError):
        return MAX_NAME_BYTES

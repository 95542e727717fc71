"""A rank's directory on disk: what is written where."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opscope.atomic_files import TempFiles, append, make_directory
from opscope.dump import layout
from opscope.dump.format import csvtext, npy
from opscope.dump.format.digest import digest
from opscope.dump.format.execution_order import ExecutionOrder
from opscope.dump.format.form import FileForm
from opscope.dump.format.manifest import Manifest
from opscope.dump.format.names import MAX_NAME_BYTES, short_name
from opscope.dump.format.npy import Array
from opscope.dump.format.pack import Pack
from opscope.dump.format.statistic import LINE_END, Renderer, StatisticColumns
from opscope.dump.format.subject import Subject
from opscope.dump.format.table_rows import TableRows
from opscope.dump.layout import CONSTANTS, DumpFolder
from opscope.stats.native_cpu import row_of_array

if TYPE_CHECKING:
    from opscope.stats.row import Row

_SAMPLES_HEADER = "File,Shape,Data Type"
_FIRST_HEADER = 2**20
"""Room for the header of the first packed file; later ones are like the last."""


@dataclass(slots=True)
class _Directory:
    """The directory that the files of one iteration go to.

    Temporary files of its values are inside it, because a file system looks for room where a file
    is made: on ext4 a directory for all of them costs several times as much.
    """

    path: str
    temp: TempFiles
    has_temp: bool = False


@dataclass(slots=True)
class _Lines:
    """Lines of a table that are not written yet."""

    header: str
    end: str
    text: list[bytes]
    rows: int = 0


class StorePlan(NamedTuple):
    """The settings of a store: what it is to write and how."""

    net_name: str
    categories: tuple[str, ...] = ()
    packs: bool = False
    form: FileForm = FileForm()


class Store:
    """Writes the files of one rank. One thread at a time uses it.

    `owner` keeps its temporary files apart from those of another process.
    """

    def __init__(self, root: Path, plan: StorePlan, manifest: Manifest, owner: str) -> None:
        self.root = root
        self.manifest = manifest
        self.columns = columns = StatisticColumns(plan.categories)
        self.form = plan.form
        self.temp = TempFiles(root / layout.TEMP, owner)
        self._owner = owner
        self._net = root / plan.net_name
        self._packs: dict[DumpFolder, Pack] | None = {} if plan.packs else None
        self._pack_header = _FIRST_HEADER
        self._order = ExecutionOrder(root, self.temp)
        self._directories: dict[DumpFolder, _Directory] = {}
        self._renderer = Renderer(columns)
        self._pending: dict[tuple[DumpFolder, str], _Lines] = {}
        self._headed: set[tuple[DumpFolder, str]] = set()
        self._name_limit = _name_limit(root)

    def prepare(self, config: str, description: str) -> None:
        """Write what is known at the start."""
        make_directory(self.temp.directory)
        make_directory(self.root / layout.METADATA)
        self._text(layout.SETTINGS, config)
        self.describe(description)
        self.write_manifest()

    def describe(self, description: str) -> None:
        """Write what is known of the framework and the device."""
        self._text(layout.VERSIONS, description)

    def save(self, place: DumpFolder, subject: Subject, array: Array) -> None:
        """Write a value's file."""
        self.write(place, self.path(place, subject), npy.dense(self.form.sample(array)))

    def path(self, place: DumpFolder, subject: Subject) -> str:
        """Return where a value's file goes, and make its directory; its name in a pack."""
        name = subject.file_name
        if self.form.cuts(math.prod(subject.kind.shape)):
            self._add_sample(place, name, subject)
        if self.packs(place):
            return name
        return self._path(self._writable(place), name)

    def packs(self, place: DumpFolder) -> bool:
        """Tell whether the values of a place are together in one file."""
        return self._packs is not None and place.iteration != CONSTANTS

    def write(self, place: DumpFolder, path: str, array: Array) -> None:
        """Write a dense array; several threads may do this at once, unless they are packed."""
        if self.packs(place):
            self._pack(place).add(path, array)
            return
        header, data = npy.buffers(array)
        size = len(header) + array.nbytes
        self._directory(place).temp.place(path, (header, data), size)
        self.manifest.wrote(place.iteration, size)

    def repeat(self, place: DumpFolder, path: str, array: Array, saved: str) -> None:
        """Give the file of an array that was saved before a second name."""
        if self.packs(place):
            self._pack(place).repeat(path, saved)
            return
        try:
            os.link(saved, path)
        except OSError:
            self.write(place, path, array)
            return
        self.manifest.wrote(place.iteration, npy.size(array))

    def adopt(self, place: DumpFolder, subject: Subject, temporary: str, size: int) -> None:
        """Put a value's file that was written elsewhere in its place."""
        path = self.path(place, subject)
        if self.packs(place):
            self._pack(place).add(path, np.load(temporary, mmap_mode="r"))
            Path(temporary).unlink()
            return
        self.temp.rename(temporary, path)
        self.manifest.wrote(place.iteration, size)

    def measure(self, place: DumpFolder, subject: Subject, array: Array, raw: Array | None) -> None:
        """Add the row of a value, computed here; `raw` are its own bytes if they differ."""
        data = array if raw is None else raw
        digests = [digest(algorithm, data) for algorithm in self.columns.algorithms]
        self.add_row(place, subject, row_of_array(array), digests)

    def add_row(
        self, place: DumpFolder, subject: Subject, row: Row, digests: Sequence[str] = ()
    ) -> None:
        """Add the row of a value; `flush` writes it."""
        line = self.columns.line(subject, row, digests)
        self._add_rows(place, csvtext.encode([line], LINE_END), 1)

    def add_rows(self, batch: TableRows) -> None:
        """Add rows that are ready; `flush` writes them."""
        self._add_rows(batch.place, self._renderer.lines(batch), len(batch.records))

    def add_line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        """Add a line to a table beside the values; `flush` writes it."""
        self._lines(place, table, header, "\n").text.append(csvtext.encode([line], "\n"))

    def _add_sample(self, place: DumpFolder, name: str, subject: Subject) -> None:
        dtype, shape, _ = subject.kind
        line = f"{csvtext.field(name)},{csvtext.shape(shape)},{dtype}"
        self.add_line(place, layout.SAMPLES, _SAMPLES_HEADER, line)

    def _add_rows(self, place: DumpFolder, text: bytes, rows: int) -> None:
        lines = self._lines(place, layout.STATISTIC, self.columns.header, LINE_END)
        lines.text.append(text)
        lines.rows += rows

    def _lines(self, place: DumpFolder, table: str, header: str, end: str) -> _Lines:
        lines = self._pending.get((place, table))
        if lines is None:
            lines = self._pending[place, table] = _Lines(header, end, [])
        return lines

    def flush(self) -> None:
        """Write the lines that were added."""
        while self._pending:
            (place, table), lines = self._pending.popitem()
            self._write_lines(place, table, lines)
            if lines.rows:
                self.manifest.wrote_rows(place.iteration, lines.rows)

    def text(self, place: DumpFolder, name: str, text: str) -> None:
        """Write a small file beside the values."""
        directory = self._writable(place)
        directory.temp.place_bytes(self._path(directory, name), csvtext.encode([text], "\n"))

    def order(self, graph: int, names: Sequence[str]) -> None:
        """Write the order of a graph's operators, when it is another than before."""
        self._order.add(graph, names)

    def finish(
        self, iteration: int, complete: bool, graphs: Sequence[int], passes: Sequence[int] = ()
    ) -> None:
        """Finish an iteration of which all has been written; these graphs ran in it.

        If none did, and it is not complete, it was none: nothing of it stays.
        """
        self.flush()
        is_none = not complete and not graphs
        for graph in graphs:
            self._order.captured(graph, iteration)
        for place in [each for each in self._directories if each.iteration == iteration]:
            directory = self._directories.pop(place)
            self._finish_pack(place)
            if directory.has_temp:
                directory.temp.remove()
            if is_none:
                shutil.rmtree(directory.path)
        if is_none:
            self.manifest.drop_iteration(iteration)
        else:
            self.manifest.finish_iteration(iteration, complete, passes)
        if self.manifest.is_due():
            began = time.monotonic()
            self.write_manifest()
            self.manifest.was_written(time.monotonic() - began)

    def fail(self, failure: str, lost: int) -> None:
        """Say in the manifest that the dump ended early, if that can be written."""
        self.manifest.finish(failure, lost)
        with contextlib.suppress(OSError):
            self.write_manifest()

    def close(self, failure: str, lost: int) -> None:
        """Write the last of the manifest and leave nothing temporary behind."""
        with contextlib.suppress(OSError) if failure else contextlib.nullcontext():
            self.flush()
            for place in list(self._packs or ()):
                self._finish_pack(place)
        self.manifest.finish(failure, lost)
        with contextlib.suppress(OSError) if failure else contextlib.nullcontext():
            self.write_manifest()
        for temp in (self.temp, *(each.temp for each in self._directories.values())):
            temp.remove()

    def write_manifest(self) -> None:
        """Write the manifest as it is now."""
        self._text(layout.MANIFEST, self.manifest.to_json())

    def _text(self, name: str, text: str) -> None:
        self.temp.place_bytes(self.root / name, text.encode("utf-8", "surrogateescape"))

    def _pack(self, place: DumpFolder) -> Pack:
        packs = self._packs
        assert packs is not None
        if place not in packs:
            packs[place] = Pack(self._writable(place).temp, self._pack_header)
        return packs[place]

    def _finish_pack(self, place: DumpFolder) -> None:
        made = self._packs.pop(place, None) if self._packs else None
        if made is None:
            return
        if not made.is_whole:
            made.discard()
            return
        self._pack_header = made.header_bytes * 5 // 4
        size = made.finish(f"{self._net}/{place.path}/{layout.PACK}")
        self.manifest.wrote(place.iteration, size, made.values)

    def _writable(self, place: DumpFolder) -> _Directory:
        """The directory of a place, with one for temporary files in it."""
        directory = self._directory(place)
        if not directory.has_temp:
            make_directory(directory.temp.directory)
            directory.has_temp = True
        return directory

    def _path(self, directory: _Directory, name: str) -> str:
        short = short_name(name, self._name_limit)
        if short != name:
            line = f"{short},{csvtext.field(name)}"
            append(f"{directory.path}/{layout.MAPPING}", csvtext.encode([line], "\n"))
        return f"{directory.path}/{short}"

    def _directory(self, place: DumpFolder) -> _Directory:
        directory = self._directories.get(place)
        if directory is None:
            path = self._net / place.path
            make_directory(path)
            temp = TempFiles(path / layout.TEMP, self._owner)
            directory = self._directories[place] = _Directory(str(path), temp)
        return directory

    def _write_lines(self, place: DumpFolder, table: str, lines: _Lines) -> None:
        path, text = f"{self._directory(place).path}/{table}", b"".join(lines.text)
        if (place, table) in self._headed:
            append(path, text)
            return
        self.temp.place_bytes(path, csvtext.encode([lines.header], lines.end) + text)
        self._headed.add((place, table))


def _name_limit(directory: Path) -> int:
    """The longest file name that the file system takes, in bytes."""
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    try:
        return min(os.pathconf(existing, "PC_NAME_MAX"), MAX_NAME_BYTES)
    except (OSError, ValueError):
        return MAX_NAME_BYTES

"""`.npy` files of the values in a packed file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from opscope.atomic_files import TempFiles, append, make_directory
from opscope.dump.format import csvtext, npy
from opscope.dump.format.names import short_name
from opscope.dump.format.pack import PackReader
from opscope.dump.layout import MAPPING, NPY, TEMP
from opscope.errors import OpscopeError
from opscope.regular import read_regular, why


def unpack(
    pack: Path, directory: Path, advance: Callable[[int], object] = lambda size: None
) -> tuple[int, int]:
    """Write the files; returns how many, and their bytes. Values that repeat others are linked.

    `advance` is called with the bytes of every value that has been written.
    """
    reader = _open(pack)
    temp = TempFiles(directory / TEMP, "c")
    make_directory(temp.directory)
    size = 0
    try:
        for name in reader:
            if not _is_file_name(name):
                raise OpscopeError(f"{pack}: {name!r} is no name of a file")
            path = _path(directory, name)
            saved = reader.repeats.get(name)
            if saved is not None and _link(directory / short_name(saved), path):
                size += path.stat().st_size
                continue
            array = npy.dense(reader[name])
            size += npy.size(array)
            temp.place(path, npy.buffers(array), npy.size(array))
            advance(npy.size(array))
    finally:
        temp.remove()
    return len(reader), size


def _open(pack: Path) -> PackReader:
    try:
        reader = PackReader(pack)
    except OSError as error:
        raise OpscopeError(f"{pack}: cannot be read: {why(error)}") from None
    except ValueError as error:
        raise OpscopeError(f"{pack}: cannot be read as a packed file ({error})") from None
    if not reader.is_dump:
        raise OpscopeError(f"{pack}: is no packed file of a dump")
    return reader


def _is_file_name(name: str) -> bool:
    """Tell whether a value may be written under its name: a `.npy` file in this directory."""
    return name.endswith(NPY) and name.isprintable() and "/" not in name and name[0] != "."


def _path(directory: Path, name: str) -> Path:
    short = short_name(name)
    mapping = directory / MAPPING
    line = csvtext.encode([f"{short},{csvtext.field(name)}"], "\n")
    if short != name and not (os.path.lexists(mapping) and line in read_regular(mapping)):
        append(mapping, line)
    return directory / short


def _link(saved: Path, path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        os.link(saved, path)
        return True
    return False

"""Files that appear complete or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.atomic_files import (
    Reserved,
    TempFiles,
    append,
    make_directory,
    write_first,
    write_whole,
)


def test_the_first_writer_wins_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_first(path, b"first")
    write_first(path, b"second")
    assert path.read_bytes() == b"first"
    write_whole(path, b"third")
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


def test_parts_are_written_one_after_the_other(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", b"one", memoryview(b"two"), b"")
    assert (tmp_path / "x").read_bytes() == b"onetwo"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, b"new", None)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_reserved_file_appears_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "end.json"
    reserved = Reserved(path)
    assert not path.exists()
    reserved.write(b"{}")
    assert path.read_bytes() == b"{}"
    Reserved(tmp_path / "other").give_back()
    assert [*tmp_path.iterdir()] == [path]


def test_temporary_files_are_put_in_their_place(tmp_path: Path) -> None:
    temp = TempFiles(tmp_path / ".tmp", "t")
    make_directory(temp.directory)
    array = np.arange(3, dtype=np.int16)
    temp.place(tmp_path / "x", (b"head", array), 10)
    assert (tmp_path / "x").read_bytes() == b"head" + array.tobytes()
    with pytest.raises(OSError, match="nowhere"):
        temp.place_bytes(tmp_path / "nowhere" / "x", b"lost")
    assert not [*Path(temp.directory).iterdir()]
    temp.remove()
    append(tmp_path / "x", b"more")
    assert (tmp_path / "x").read_bytes().endswith(b"more")
    assert [*tmp_path.iterdir()] == [tmp_path / "x"]

"""Files that may be anything: regular ones are read, others refused in words, none waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from opscope import regular
from opscope.regular import entries, is_directory, open_regular, read_regular, regular_lines


def refusal(path: Path) -> str:
    with pytest.raises(OSError) as caught:
        open_regular(path)
    assert caught.value.filename == str(path)
    return caught.value.strerror or ""


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    assert refusal(tmp_path / "folder") == "is a directory, no regular file"
    assert refusal(tmp_path / "fifo") == "is a FIFO, no regular file"
    assert refusal(tmp_path / "socket") == "is a socket or a device, no regular file"
    assert refusal(tmp_path / "loop") == "is a symbolic link, no regular file"
    assert refusal(tmp_path / "device") == "is a symbolic link, no regular file"
    assert "no path" in refusal(tmp_path / "a\0b")
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_a_link_is_followed_where_a_person_gave_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "device").symlink_to("/dev/zero")
    assert read_regular(tmp_path / "link", follow=True) == b"text"
    with pytest.raises(OSError, match="is a device"):
        read_regular(tmp_path / "device", follow=True)


def test_what_is_too_much(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first\n")
    os.truncate(path, 1 << 36)
    with pytest.raises(OSError, match="has 68719476736 bytes"):
        read_regular(path)
    lines = regular_lines(path)
    assert next(lines) == b"first\n"
    with pytest.raises(OSError, match="has a line of more than"):
        next(lines)


def test_lines_of_the_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular, "LIMIT", 4)
    (tmp_path / "file").write_bytes(b"abc\nd")
    assert [*regular_lines(tmp_path / "file")] == [b"abc\n", b"d"]


def test_what_is_in_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"")
    assert entries(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert not capsys.readouterr().err
    assert entries(tmp_path / "a") == []
    said = f"opscope: {tmp_path / 'a'} cannot be looked into: Not a directory; left out\n"
    assert capsys.readouterr().err == said


def test_whether_there_is_a_directory(tmp_path: Path) -> None:
    assert is_directory(tmp_path)
    assert not is_directory(tmp_path / "a")
    assert not is_directory(tmp_path / ("a" * 5000))

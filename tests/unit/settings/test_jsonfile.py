from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscope.settings.jsonfile import JsonFile, read_json_file


def read(tmp_path: Path, content: bytes) -> JsonFile:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    return read_json_file(str(file))


def only_message(document: JsonFile) -> str:
    assert document.data is None
    (problem,) = document.problems
    assert problem.file == document.file
    return problem.message


def test_an_object(tmp_path: Path) -> None:
    document = read(tmp_path, b'{"a": {"b": [1, true, null]}}')
    assert document.data == {"a": {"b": [1, True, None]}}
    assert document.text == '{"a": {"b": [1, true, null]}}'
    assert document.problems == ()


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf{}").data == {}


def test_a_relative_name_is_taken_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    document = read_json_file("config.json", tmp_path)
    assert document.data == {}
    assert document.file == "config.json"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON: Expecting value at line 1, column 1"),
        (b'{\n  "a": 1,\n  b: 2\n}', "at line 3, column 3"),
        (b'{"a": }', "at line 1, column 7"),
        (b"[1, 2]", "must hold a JSON object"),
        (b'"text"', "must hold a JSON object"),
        (b'{"a": "\xff"}', "is not UTF-8 text: the byte at offset 7 is invalid"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not usable"),
    ],
)
def test_what_is_wrong(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in only_message(read(tmp_path, content))


def test_missing(tmp_path: Path) -> None:
    assert only_message(read_json_file(str(tmp_path / "no.json"))) == "does not exist"
    (tmp_path / "file").write_text("{}")
    assert only_message(read_json_file(str(tmp_path / "file" / "x.json"))) == "does not exist"


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in only_message(read_json_file(str(tmp_path)))


def test_a_name_that_cannot_be(tmp_path: Path) -> None:
    assert "cannot be read" in only_message(read_json_file("a\0b"))
    assert "cannot be read" in only_message(read_json_file("x" * 5000))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}")
    file.chmod(0)
    assert only_message(read_json_file(str(file))) == "cannot be read: Permission denied"


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    fifo, device = (read_json_file(str(tmp_path / name)) for name in ("fifo.json", "zero.json"))
    assert only_message(fifo) == "cannot be read: is a FIFO, no regular file"
    assert only_message(device) == "cannot be read: is a device, no regular file"


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "here.json").write_text('{"a": 1}')
    (tmp_path / "link.json").symlink_to("here.json")
    assert read_json_file(str(tmp_path / "link.json")).data == {"a": 1}


@pytest.mark.parametrize("depth", [500, 5000, 100_000])
def test_nested_too_deeply(tmp_path: Path, depth: int) -> None:
    document = read(tmp_path, b'{"a": ' * depth + b"1" + b"}" * depth)
    assert document.data is not None or only_message(document) == "is nested too deeply"


def test_repeated_keys_are_reported_with_their_place(tmp_path: Path) -> None:
    document = read(tmp_path, b'{"a": {"b": 1, "c": 2, "b": 3}, "d": 1, "d": 2}')
    assert document.data == {"a": {"b": 3, "c": 2}, "d": 2}
    assert [problem.key for problem in document.problems] == ["d", "a.b"]
    assert all("more than once" in problem.message for problem in document.problems)

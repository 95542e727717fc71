from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscope.settings.projectfile import ProjectFile, read_project_file


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text)
    return file


def only_message(project: ProjectFile) -> str:
    (problem,) = project.problems
    assert problem.file == str(project.file)
    assert project.data == {}
    return problem.message


def test_none(tmp_path: Path) -> None:
    assert read_project_file(tmp_path).data == {}


def test_own_file(tmp_path: Path) -> None:
    file = put(tmp_path, "opscope.toml", 'every = 2\nwatch = "none"')
    assert read_project_file(tmp_path) == ProjectFile(file, "", {"every": 2, "watch": "none"})


def test_shared_file(tmp_path: Path) -> None:
    file = put(tmp_path, "pyproject.toml", "[tool.opscope]\nevery = 3")
    assert read_project_file(tmp_path) == ProjectFile(file, "tool.opscope.", {"every": 3})


def test_own_file_wins_over_the_shared_one_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "opscope.toml", "every = 2")
    put(tmp_path, "pyproject.toml", "[tool.opscope]\nevery = 3")
    assert read_project_file(tmp_path).data == {"every": 2}


def test_the_nearest_wins(tmp_path: Path) -> None:
    put(tmp_path, "opscope.toml", "every = 2")
    put(tmp_path / "a", "pyproject.toml", "[tool.opscope]\nevery = 3")
    put(tmp_path / "a" / "b", "pyproject.toml", '[project]\nname = "opscope-user"')
    assert read_project_file(tmp_path / "a" / "b" / "c").data == {"every": 3}
    assert read_project_file(tmp_path).data == {"every": 2}


def test_broken(tmp_path: Path) -> None:
    put(tmp_path, "opscope.toml", "every = 1\nwatch = @")
    message = only_message(read_project_file(tmp_path))
    assert message.startswith("is not TOML: ")
    assert "line 2, column 9" in message


def test_broken_shared_file_matters_only_if_it_speaks_of_opscope(tmp_path: Path) -> None:
    put(tmp_path / "a", "pyproject.toml", "[tool.opscope]\nevery = ")
    put(tmp_path / "b", "pyproject.toml", "[tool.other]\nevery = ")
    put(tmp_path / "c", "pyproject.toml", "dependencies = [opscope")
    assert "is not TOML" in only_message(read_project_file(tmp_path / "a"))
    assert read_project_file(tmp_path / "b").problems == ()
    assert read_project_file(tmp_path / "c").problems == ()


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_bytes(b'watch = "\xff"')
    assert "is not UTF-8" in only_message(read_project_file(tmp_path))


def test_not_a_table(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[tool]\nopscope = "on"')
    assert only_message(read_project_file(tmp_path)) == "must be a table"


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    os.mkfifo(tmp_path / "opscope.toml")
    assert read_project_file(tmp_path).problems == ()


@pytest.mark.parametrize("name", ["opscope.toml", "pyproject.toml"])
def test_nested_too_deeply(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[tool.opscope]\na = " + "[" * 5000 + "]" * 5000)
    (problem,) = read_project_file(tmp_path).problems
    assert problem.message == "is nested too deeply"

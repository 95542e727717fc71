"""Log lines, levels, files and rotation, as the environment says."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope import logs, messages
from opscope.settings.logs import (
    COUNTERPARTS,
    SUBMODULES,
    SYNONYMS,
    WITHOUT_COUNTERPART,
    LogSettings,
    read_log_settings,
)

LINE = re.compile(
    r"\[(?P<level>[A-Z]+)\] (?P<part>[A-Z_]+)\((?P<pid>\d+):\d+,\w+\):"
    r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[(?P<file>.+):(?P<line>\d+)\] (?P<text>.*)"
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    messages.forget_said()
    yield
    logs.configure({})
    messages.forget_said()


def log_file(folder: Path, rank: int = 0) -> Path:
    return folder / f"rank_{rank}" / "logs" / f"opscope.log.{os.getpid()}"


def to_files(folder: Path, **more: str) -> dict[str, str]:
    return {"GLOG_logtostderr": "0", "GLOG_log_dir": str(folder)} | more


def test_defaults() -> None:
    assert read_log_settings({}) == LogSettings()
    assert LogSettings().level == LogSettings().stderr_level == 2
    assert LogSettings().max_bytes == 52428800 == 50 * 1024 * 1024
    assert LogSettings().backups == 30


@pytest.mark.parametrize(("theirs", "ours"), SYNONYMS.items())
def test_our_name_of_a_variable_wins(theirs: str, ours: str) -> None:
    values = {
        "GLOG_log_dir": ("/a", "/b"),
        "MS_SUBMODULE_LOG_v": ("{dump:1}", "{dump:3}"),
        "GLOG_logtostderr": ("1", "0"),
    }.get(theirs, ("1", "3"))
    where = {"GLOG_log_dir": "/x"} if theirs != "GLOG_log_dir" else {}
    alone = read_log_settings(where | {theirs: values[1]})
    assert alone == read_log_settings(where | {theirs: values[0], ours: values[1]})
    assert alone != read_log_settings(where)


def test_bytes_win_over_megabytes() -> None:
    assert read_log_settings({"GLOG_log_max": "2"}).max_bytes == 2 << 20
    both = {"GLOG_log_max": "2", "logger_maxBytes": "1000"}
    assert read_log_settings(both).max_bytes == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLOG_v", "5"),
        ("GLOG_v", "info"),
        ("GLOG_logtostderr", "yes"),
        ("GLOG_stderrthreshold", "-1"),
        ("GLOG_log_dir", "/a b"),
        ("GLOG_log_max", "0"),
        ("logger_maxBytes", "1e6"),
        ("logger_backupCount", "many"),
        ("MS_SUBMODULE_LOG_v", "PARSER:2"),
        ("MS_SUBMODULE_LOG_v", "{dump:7}"),
    ],
)
def test_a_bad_value_is_one_message_and_the_default(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = logs.configure({name: value})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'opscope: environment: {name} = "{value}": must ')
    assert settings == LogSettings(notices=settings.notices)


def test_files_need_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    settings = logs.configure({"GLOG_logtostderr": "0"})
    assert settings.to_stderr
    (line,) = capsys.readouterr().err.splitlines()
    assert "GLOG_log_dir does not say where; they go to stderr" in line


def test_levels_of_single_parts(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure({"GLOG_v": "1", "MS_SUBMODULE_LOG_v": "{ dump : 3, PYNATIVE:0 }"})
    logs.get_logger("dump").warning("not shown")
    logs.get_logger("dump").error("a")
    logs.get_logger("capture").debug("b")
    logs.get_logger("watch").debug("not shown")
    logs.get_logger("watch").info("c")
    shown = [LINE.fullmatch(line) for line in capsys.readouterr().err.splitlines()]
    assert [(m["level"], m["part"], m["text"]) for m in shown if m] == [
        ("ERROR", "DUMP", "a"),
        ("DEBUG", "CAPTURE", "b"),
        ("INFO", "WATCH", "c"),
    ]


def test_every_name_of_the_guide_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        *("KERNEL", "PRE_ACT", "SESSION", "COMMON", "DEBUG", "ANALYZER", "OPTIMIZER", "PARALLEL"),
        *("MD", "PIPELINE", "PARSER", "PYNATIVE", "PROFILER", "DEVICE", "GE_ADPT", "EXPRESS"),
        *("UTILS", "VM", "ME", "CORE"),
    ]
    assert set(table) == COUNTERPARTS.keys() | WITHOUT_COUNTERPART
    for name in table:
        notices = read_log_settings({"MS_SUBMODULE_LOG_v": f"{{{name}:1}}"}).notices
        assert len(notices) == (name in WITHOUT_COUNTERPART), name
    assert {part for parts in COUNTERPARTS.values() for part in parts} <= set(SUBMODULES)


def test_every_part_is_there() -> None:
    package = Path(logs.__file__).parent
    for part in SUBMODULES:
        assert (package / part).is_dir() or (package / f"{part}.py").is_file(), part


def test_a_part_there_is_not() -> None:
    (notice,) = read_log_settings({"MS_SUBMODULE_LOG_v": "{dmp:1,read:0}"}).notices
    assert 'dmp is no part of opscope (did you mean "dump"?); it has no effect' in notice


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.027, "027.000"), (0.005, "005.000"), (0.9999, "999.900"), (0.133, "133.000")],
)
def test_milliseconds_are_padded(seconds: float, shown: str) -> None:
    record = logging.LogRecord("opscope.train", logging.INFO, "a.py", 7, "text", None, None)
    record.created = 1_700_000_000 + seconds + 1e-7
    assert f".{shown} [a.py:7] text" in logs.LineFormatter().format(record)


def test_a_line_names_its_place_in_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure({})
    logs.get_logger("train").warning("two\nlines")
    match = LINE.fullmatch(capsys.readouterr().err.rstrip("\n"))
    assert match is not None
    assert match["file"].endswith("test_logs.py")
    assert (match["pid"], match["text"]) == (str(os.getpid()), "two\\nlines")


def test_the_screen_wins_over_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure({"GLOG_log_dir": str(tmp_path)})
    logs.get_logger("train").warning("here")
    assert "here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_files_and_the_screen_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(to_files(tmp_path, GLOG_v="1", GLOG_stderrthreshold="3"))
    log = logs.get_logger("train")
    assert not log_file(tmp_path).exists()  # a file is made with its first line
    log.debug("nowhere")
    log.info("file")
    log.error("both")
    written = log_file(tmp_path).read_text().splitlines()
    assert [LINE.fullmatch(line)["text"] for line in written] == ["file", "both"]  # type: ignore[index]
    assert [line[-4:] for line in capsys.readouterr().err.splitlines()] == ["both"]


def test_the_rank_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    logs.configure(to_files(tmp_path))
    logs.get_logger().error("x")
    assert log_file(tmp_path, rank=3).exists()


def test_files_are_rotated(tmp_path: Path) -> None:
    logs.configure(to_files(tmp_path, GLOG_v="1", logger_maxBytes="2000", logger_backupCount="2"))
    for number in range(100):
        logs.get_logger("train").info("line %03d %s", number, "x" * 100)
    first = log_file(tmp_path)
    files = sorted(first.parent.iterdir())
    assert [file.name for file in files] == [first.name, f"{first.name}.1", f"{first.name}.2"]
    assert all(0 < file.stat().st_size <= 2000 for file in files)
    assert "line 099" in first.read_text()


def test_what_is_said_goes_to_stderr_at_any_level_and_into_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(to_files(tmp_path, GLOG_v="4", GLOG_stderrthreshold="4"))
    messages.say_lines(["NaN or Inf in step 6", "  operator  log"])
    assert capsys.readouterr().err == "NaN or Inf in step 6\n  operator  log\n"
    lines = [LINE.fullmatch(line) for line in log_file(tmp_path).read_text().splitlines()]
    assert [m["text"] for m in lines if m] == ["NaN or Inf in step 6", "  operator  log"]


def test_a_forked_process_has_its_own_file(tmp_path: Path) -> None:
    logs.configure(to_files(tmp_path))
    logs.get_logger().error("parent")
    child = os.fork()
    if not child:
        logs.get_logger().error("child")
        os._exit(0)
    os.waitpid(child, 0)
    other = log_file(tmp_path).with_name(f"opscope.log.{child}")
    assert "child" in other.read_text()
    assert "child" not in log_file(tmp_path).read_text()


def test_a_directory_that_cannot_be_made_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    logs.configure(to_files(tmp_path / "file", GLOG_stderrthreshold="4"))
    logs.get_logger().error("a")
    logs.get_logger().error("b")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("opscope: logs cannot be written to")

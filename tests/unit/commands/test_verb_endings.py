"""How verbs end: Ctrl-C, a reader that leaves, files that must not be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_run import write_run

from helpers.program import clean_environment, opscope
from opscope.commands import main

LONG = "select sum(a.range * b.range) from range(100000000) a, range(100000) b"


def start(*words: str | Path, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "opscope", *map(str, words)],
        env=clean_environment(PYTHONUNBUFFERED=""),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def seconds_of(process: subprocess.Popen[str]) -> float:
    """How long a process has computed."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_ends_a_query_in_one_line(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    process = start("query", tmp_path / "run", LONG)
    try:
        while seconds_of(process) < 2:  # so long that it can only be the query
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "opscope: interrupted\n")


@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"], ["query", "run", "from range(9)"]])
def test_a_reader_that_leaves(tmp_path: Path, words: list[str]) -> None:
    write_run(tmp_path / "run")
    words = [str(tmp_path / "run") if word == "run" else word for word in words]
    words += [str(tmp_path)] if words[0] == "runs" else []
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*words, stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


def test_a_path_that_cannot_be_asked_about(tmp_path: Path) -> None:
    done = opscope("runs", "x" * 5000, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("opscope: xxx")
    assert done.stderr.count("\n") == 1


def test_a_watch_file_that_is_a_fifo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "watch.json")
    assert main(["check", str(tmp_path), "--watch", str(tmp_path / "watch.json")]) == 2
    assert "watch.json: cannot be read: is a FIFO, no regular file" in capsys.readouterr().err

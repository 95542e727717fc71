"""Locks on files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opscope.locks import FileLock, is_held, one_at_a_time

HOLDER = """
import sys, time
from pathlib import Path
from opscope.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.take()
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_is_seen_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    lock = FileLock(path)
    assert lock.take()
    assert is_held(path)
    assert not FileLock(path).take(patience_s=0.02)
    lock.release()
    assert not is_held(path)
    lock.release()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(path)
        holder.send_signal(signal.SIGKILL)
    assert not is_held(path)


def test_a_forked_child_does_not_hold_the_lock_on(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock(path)
    assert lock.take()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        lock.release()  # it is the parent's
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        assert is_held(path)
        lock.release()
        assert not is_held(path, patience_s=10)  # the child may not have come far yet
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_what_is_no_file_is_not_held(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert not is_held(tmp_path / "fifo")
    assert not is_held(tmp_path)


def test_one_at_a_time_goes_on_after_its_patience(tmp_path: Path) -> None:
    with one_at_a_time(tmp_path):
        began = time.monotonic()
        with one_at_a_time(tmp_path, patience_s=0.05):
            assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("unknown", [True, False])
def test_where_the_file_system_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "not supported")

    FileLock(tmp_path / "lock")
    monkeypatch.setattr("fcntl.flock", refuse)
    assert is_held(tmp_path / "lock", unknown=unknown) is unknown

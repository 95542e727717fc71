"""Dumps of real trainings that are killed, interrupted, raise, or run out of disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_dump_shared import SCRIPT, load, manifest, npy_files, write_config

from helpers.forked import forked_opscope as opscope
from helpers.program import clean_environment

ENDLESS = SCRIPT.replace("range(4)", "range(1_000_000)")
RAISES = SCRIPT.replace(
    "        loss.backward()", "        loss.backward()\n        assert step < 2, 'broken'"
)


def start(folder: Path, script: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "opscope", "run", "--dump", "dump.json", "train.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=clean_environment(), **pipes)


def wait_for_step(process: subprocess.Popen[str], dump: Path, step: int) -> None:
    due = time.monotonic() + 60
    while not list((dump / "rank_0" / "Net" / "0" / str(step)).glob("*.npy")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < due
        time.sleep(0.01)


def wait_for_writer(dump: Path) -> None:
    """The background writer ends by itself, and says so."""
    due = time.monotonic() + 60
    while not manifest(dump).get("ended"):
        assert time.monotonic() < due
        time.sleep(0.05)


def assert_readable(dump: Path) -> None:
    """Every file of the tree loads, and finished iterations have what the manifest says."""
    files = npy_files(dump)
    assert files
    for file in files:
        load(file)
    for each in manifest(dump)["iterations"]:
        folder = dump / "rank_0" / "Net" / "0" / str(each["iteration"])
        if each["complete"]:
            assert each["files"] == len(list(folder.glob("*.npy")))


@pytest.mark.parametrize(
    "enable", [pytest.param(True, marks=pytest.mark.long), False], ids=["sync", "async"]
)
def test_killed_while_dumping_and_a_second_run_before_that(tmp_path: Path, enable) -> None:
    dump = tmp_path / "dump"
    write_config(tmp_path, enable=enable)
    process = start(tmp_path, ENDLESS)
    try:
        wait_for_step(process, dump, 2)
        second = opscope("run", "--dump", "dump.json", "train.py", cwd=tmp_path)
        assert second.returncode == 2
        assert f"{dump}: process {process.pid}" in second.stderr
        assert "is writing a dump there" in second.stderr
        assert not (dump / ".previous").exists()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    if not enable:
        wait_for_writer(dump)
    assert_readable(dump)
    assert manifest(dump)["complete"] is False


@pytest.mark.parametrize(
    "enable", [True, pytest.param(False, marks=pytest.mark.long)], ids=["sync", "async"]
)
def test_interrupted(tmp_path: Path, enable) -> None:
    dump = tmp_path / "dump"
    write_config(tmp_path, enable=enable)
    process = start(tmp_path, ENDLESS)
    try:
        wait_for_step(process, dump, 2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT), stderr
    assert "KeyboardInterrupt" in stderr
    assert "internal error" not in stderr
    assert_readable(dump)
    listed = manifest(dump)
    assert listed["ended"]
    assert [each["complete"] for each in listed["iterations"]][:2] == [True, True]


@pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])
def test_a_script_that_raises(tmp_path: Path, enable) -> None:
    write_config(tmp_path, enable=enable)
    (tmp_path / "train.py").write_text(RAISES)
    done = opscope("run", "--dump", "dump.json", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "AssertionError: broken" in done.stderr
    assert_readable(tmp_path / "dump")
    finished = {e["iteration"]: e["complete"] for e in manifest(tmp_path / "dump")["iterations"]}
    assert finished[0] is True
    assert finished[1] is True
    last = tmp_path / "dump" / "rank_0" / "Net" / "0" / "2"
    assert len(list(last.glob("AccumulateGrad.*.output.0.*"))) == 4, "up to the exception"
    assert finished[2] is False
    assert list(last.glob("add_.*")) == []


def may_mount() -> bool:
    if os.geteuid() or not shutil.which("unshare"):
        return False
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "enable", [True, pytest.param(False, marks=pytest.mark.long)], ids=["sync", "async"]
)
def test_full_disk(tmp_path: Path, enable) -> None:
    """The disk is a small tmpfs that only the training sees."""
    if not may_mount():
        pytest.skip("mounting is not permitted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    write_config(tmp_path, path=str(disk / "dump"), enable=enable)
    program = f"{sys.executable} -m opscope run --dump dump.json train.py"
    keep = f"cat {disk}/dump/rank_0/.dump_metadata/manifest.json >&3"
    shell = f"mount -t tmpfs -o size=400k none {disk} && {program}; rc=$?; {keep}; exit $rc"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"exec 3>manifest.json; {shell}"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"
    assert done.stderr.count("the disk is full") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "manifest.json").read_text())["complete"] is False


@pytest.mark.parametrize(
    "enable", [True, pytest.param(False, marks=pytest.mark.long)], ids=["sync", "async"]
)
def test_files_that_may_not_grow(tmp_path: Path, enable) -> None:
    """A limit on the size of files, which a large weight exceeds in the middle of a step."""
    script = SCRIPT.replace("nn.Linear(6, 5)", "nn.Linear(6, 5000)")
    (tmp_path / "train.py").write_text(script.replace("nn.Linear(5, 3)", "nn.Linear(5000, 3)"))
    write_config(tmp_path, enable=enable)
    done = subprocess.run(
        [sys.executable, "-m", "opscope", "run", "--dump", "dump.json", "train.py"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"
    assert done.stderr.count("exceed the allowed size") == 1, done.stderr
    assert "Traceback" not in done.stderr
    for file in npy_files(tmp_path / "dump"):
        load(file)
    assert manifest(tmp_path / "dump")["complete"] is False


def test_a_bad_config_is_refused_with_all_its_problems(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    write_config(
        tmp_path,
        iteration="3-1",
        dump_mode=1,
        kernels=["name-regex(()"],
        input_output=3,
        saved_dat="full",
    )
    done = opscope("run", "--dump", "dump.json", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    for problem in ("iteration", "kernels", "input_output", 'did you mean "saved_data"'):
        assert problem in done.stderr
    assert len(done.stderr.splitlines()) >= 4
    assert not (tmp_path / "dump").exists()

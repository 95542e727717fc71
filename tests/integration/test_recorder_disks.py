"""Disks that fill up while training runs, or cannot be written to: really mounted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.forked import forked_opscope
from helpers.recordings import TRAIN, recording
from opscope.read.recorded import Recorded
from opscope.views.timeline import timeline

FILLS = TRAIN.replace(
    "    out = net(x)\n",
    """    if step == 2:
        try:
            with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError as error:
            print("full:", error.strerror)
    out = net(x)
""",
)
RING_MB = 12
Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a small disk in memory; skips where that is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mounted(options: str) -> Path:
        words = ["mount", "-t", "tmpfs", "-o", options, "opscope-test", str(disk)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount here")
        if done.returncode:
            pytest.skip(f"a disk may not be mounted here: {done.stderr.strip()}")
        return disk

    yield mounted
    subprocess.run(["umount", "-l", str(disk)], capture_output=True, check=False)


@pytest.mark.parametrize(
    ("how", "code", "cause"), [("raise", 1, "exception"), ("SIGKILL", -9, "killed")]
)
def test_a_disk_that_fills_up(
    tmp_path: Path, mount: Mount, how: str, code: int, cause: str
) -> None:
    disk = mount(f"size={RING_MB + 2}m")
    (tmp_path / "train.py").write_text(FILLS)
    environ = {"MS_RDR_PATH": str(disk), "FOLDER": str(disk)}
    done = forked_opscope("run", "--no-stats", "train.py", how, cwd=tmp_path, **environ)
    assert done.returncode == code, done.stderr
    assert done.stdout == "full: No space left on device\n" or how == "SIGKILL"
    assert done.stderr.count("opscope: ") == (how == "raise")
    assert ("No space left on device; training is not disturbed" in done.stderr) == (how == "raise")
    for _ in range(2):  # the second time there is room, and files are made of it
        found = Recorded(disk)
        (rank,) = found.ranks
        assert found.report["cause"] == cause
        assert rank.report["last_op"]["op_type"] == "ward_last_op" and rank.report["step"] == 3
        assert [step["step"] for step in rank.steps] == [0, 1, 2, 3]
        assert timeline(found, None, None, 100)["ranks"][0]["lanes"]
        (disk / "filler").unlink(missing_ok=True)
    assert (recording(disk) / "report.html").exists()


def test_a_disk_that_can_only_be_read(tmp_path: Path, mount: Mount) -> None:
    disk = mount("size=1m,ro")
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"MS_RDR_PATH": str(disk)}
    done = forked_opscope("run", "--no-stats", "train.py", "well", cwd=tmp_path, **environ)
    assert done.returncode == 0 and "done" in done.stdout
    (line,) = done.stderr.splitlines()
    assert "Read-only file system" in line and "it records in memory" in line


def test_a_recording_on_a_disk_that_can_only_be_read_is_shown(tmp_path: Path, mount: Mount) -> None:
    disk = mount(f"size={RING_MB + 2}m")
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"MS_RDR_PATH": str(disk)}
    done = forked_opscope("run", "--no-stats", "train.py", "SIGKILL", cwd=tmp_path, **environ)
    assert done.returncode == -9
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
    shown = forked_opscope("report", str(disk), cwd=tmp_path)
    assert shown.returncode == 0 and shown.stdout.startswith("how it ended: killed from outside")
    assert not (recording(disk) / "report.json").exists()

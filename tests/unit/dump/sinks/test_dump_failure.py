from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import MadeDump, NewDump, make_node, make_settings

LIMITED = """
import resource, sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from made_dump import MadeDump, make_node, make_settings
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
with MadeDump(make_settings(Path(sys.argv[2]))) as dump:
    for size in (10, 100_000, 10, 10):
        dump.call(make_node(), outputs=[torch.ones(size)])
        dump.end_step()
print("trained to the end")
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if mount is None or subprocess.run([mount, *options], check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def all_load(root: Path) -> int:
    files = list(root.rglob("*.npy"))
    for file in files:
        np.load(file, allow_pickle=False)
    return len(files)


def test_a_full_disk_stops_the_dump_and_not_training(
    small_disk: Path, enable: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = make_settings(small_disk / "dump", enable)
    with MadeDump(settings) as dump:
        node, steps = make_node(), 0
        for _ in range(400):
            dump.call(node, outputs=[torch.ones(50_000)])
            dump.end_step()
            steps += 1
            if not dump.sink.wants_step(steps):
                break
            time.sleep(0.01 if steps > 20 else 0)  # let the writing process find out
        assert 5 < steps < 400
        assert not dump.sink.wants(make_node())
        dump.call(node, outputs=[torch.ones(10)])
    said = capfd.readouterr().err
    assert said.count("the disk is full") == 1
    assert "training goes on" in said
    manifest = dump.manifest()
    assert manifest["complete"] is False
    assert "the disk is full" in manifest["failure"]
    assert manifest["dropped_values"] >= 1
    assert 5 < all_load(dump.root) <= 10


def test_a_file_size_limit(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", LIMITED, here, str(tmp_path / "dump")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "trained to the end" in done.stdout
    assert done.stderr.count("a file would exceed the allowed size") == 1
    assert all_load(tmp_path / "dump") == 1


def test_a_directory_that_vanishes(
    new_dump: NewDump, enable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_dump(enable) as dump:
        node = make_node()
        dump.call(node, outputs=[torch.ones(1)])
        dump.end_step()
        # At once: a process that writes meanwhile would keep the directory from being removed.
        dump.root.rename(dump.root.with_name("vanished"))
        for _ in range(100):
            dump.call(node, outputs=[torch.ones(1)])
            dump.call(node, outputs=[torch.ones(1)])
            dump.end_step()
    said = capfd.readouterr().err
    assert said.count("the dump stops here, training goes on") == 1


def test_a_path_that_cannot_be_written(
    new_dump: NewDump, enable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    dump = new_dump(enable)
    dump.settings.path.parent.joinpath("dump").write_text("a file is in the way")
    with dump:
        assert not dump.sink.wants(make_node())
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.end_step()
    assert capfd.readouterr().err.count("the dump stops here") == 1


def test_a_bug_ends_the_dump_only(
    new_dump: NewDump,
    enable: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from opscope.dump.sinks import recorder

    with new_dump(enable) as dump:
        dump.call(make_node("D/before-op0"), outputs=[torch.ones(1)])
        monkeypatch.setattr(recorder, "output_of", lambda node, slot: 1 // 0)
        for _ in range(3):
            dump.call(make_node(), outputs=[torch.ones(1)])
    assert capfd.readouterr().err.count("ZeroDivisionError") == 1
    assert len(dump.files()) == 1
    assert "ZeroDivisionError" in dump.manifest()["failure"]


def test_no_memory_for_a_copy(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from opscope.dump.transport import background

    def no_memory(*_: object) -> None:
        raise MemoryError

    with new_dump(enable=False) as dump:
        dump.call(make_node("D/before-op0"), outputs=[torch.ones(1)])
        monkeypatch.setattr(background, "read", no_memory)
        dump.call(make_node(), outputs=[torch.ones(4)[::2]])
    assert "not enough memory" in capfd.readouterr().err
    assert len(dump.files()) == 1


def test_the_limit_of_this_process_is_untouched() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY

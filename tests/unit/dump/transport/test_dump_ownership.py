from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import MadeDump, NewDump, make_node, make_settings

from opscope.dump.transport.ownership import check_path_free
from opscope.errors import OpscopeError

HOLD = """
import sys
from pathlib import Path
from opscope.dump.transport.ownership import RankLock
lock = RankLock(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that holds the path."""

    def __init__(self, path: Path, rank: int = 0, run_id: str = "run-b") -> None:
        command = [sys.executable, "-c", HOLD, str(path), str(rank), run_id]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> int:
        return self.process.pid

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def write_one(dump: MadeDump, value: float) -> None:
    with dump:
        dump.call(make_node(), outputs=[torch.tensor([value])])
        dump.end_step()


def test_a_second_run_moves_the_first_one_aside(
    new_dump: NewDump, enable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    write_one(new_dump(enable, "run-a"), 1.0)
    write_one(new_dump(enable, "run-b"), 2.0)
    dump = new_dump(enable, "run-c")
    write_one(dump, 3.0)
    assert dump.load("*.npy")[0] == 3
    assert len(dump.files()) == 1
    previous = dump.settings.path / ".previous"
    kept = [np.load(file)[0] for file in previous.glob("*/rank_0/Net/0/0/*.npy")]
    assert sorted(kept) == [1, 2]
    runs = [json.loads(file.read_text())["run"] for file in previous.rglob("manifest.json")]
    assert sorted(runs) == ["run-a", "run-b"]
    assert str(previous) in capfd.readouterr().err


def test_ranks_of_an_earlier_run_go_with_it(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump")
    old = [MadeDump(settings, "old") for _ in range(3)]
    for rank, dump in enumerate(old):
        dump.sink.open(rank)
        dump.sink.close()
    new = [MadeDump(settings, "new") for _ in range(2)]
    for rank, dump in enumerate(new):
        dump.sink.open(rank)
    assert sorted(each.name for each in settings.path.glob("rank_*")) == ["rank_0", "rank_1"]
    (moved,) = (settings.path / ".previous").iterdir()
    assert sorted(each.name for each in moved.iterdir()) == ["rank_0", "rank_1", "rank_2"]
    for dump in new:
        dump.sink.close()
    late = MadeDump(settings, "new")
    late.sink.open(2)
    late.sink.close()
    assert len(list((settings.path / ".previous").iterdir())) == 1
    assert len(list(settings.path.glob("rank_*"))) == 3


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_a_live_run_is_an_error_that_names_it(tmp_path: Path, rank: int | None) -> None:
    settings = make_settings(tmp_path / "dump")
    with Holder(settings.path) as pid:
        with pytest.raises(OpscopeError, match=rf"process {pid} \(run run-b\)") as raised:
            check_path_free(settings, rank, "run-a")
        assert raised.value.exit_code == 2
        assert str(settings.path) in str(raised.value)
    check_path_free(settings, rank, "run-a")


def test_opening_takes_the_lock(new_dump: NewDump, enable: bool, tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump")
    with Holder(settings.path) as pid, pytest.raises(OpscopeError, match=f"process {pid}"):
        new_dump(enable).sink.open(0)
    with new_dump(enable) as dump:
        for rank in (None, 0, 3):
            with pytest.raises(OpscopeError, match=f"process {os.getpid()}"):
                check_path_free(dump.settings, rank, "run-b")
    check_path_free(dump.settings, 0, "run-b")


def test_ranks_of_one_run_share_the_path(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump")
    with Holder(settings.path, rank=1, run_id="run-a"):
        check_path_free(settings, None, "run-a")
        check_path_free(settings, 0, "run-a")
        with pytest.raises(OpscopeError):
            check_path_free(settings, 1, "run-a")


def test_a_path_that_is_not_there_is_free(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump")
    check_path_free(settings, None, "run-a")
    assert not settings.path.exists()


def test_looking_does_not_need_torch() -> None:
    code = "import sys, opscope.dump.transport.ownership; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_forked_child_neither_holds_the_lock_nor_writes(new_dump: NewDump, enable: bool) -> None:
    dump = new_dump(enable)
    dump.sink.open(0)
    reader, writer = os.pipe()
    is_there, says_so = os.pipe()
    child = os.fork()
    if not child:
        os.write(says_so, b".")
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.sink.close()
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        dump.call(make_node("D/parent-op0"), outputs=[torch.ones(1)])
        dump.end_step()
        dump.sink.close()
        os.read(is_there, 1)  # it may not have run at all so far, nor let go of anything
        with open(dump.settings.path / ".rank_0.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        for end in reader, is_there, says_so:
            os.close(end)
    assert [name.split(".")[1] for name in dump.files()] == ["D_parent-op0"]
    assert dump.manifest()["complete"]

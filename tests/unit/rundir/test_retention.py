"""Old runs go, living ones stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from made_run import MadeRun, write_run

from opscope.rundir.layout import run_name
from opscope.rundir.retention import is_alive, retire_runs, runs_in


def backdate(run: Path, day: int) -> Path:
    """Make a run as if it had started on a day."""
    info = json.loads((run / "run.json").read_text())
    info["started"] = f"2020-01-{day:02d}T00:00:00.000+00:00"
    (run / "run.json").write_text(json.dumps(info))
    return run


def test_the_newest_runs_are_kept(tmp_path: Path) -> None:
    for day, name in [(3, "c"), (1, "a"), (2, "b")]:
        write_run(tmp_path / name, steps=1)
        backdate(tmp_path / name, day)
    (tmp_path / "not a run").mkdir()
    assert [run.name for run in runs_in(tmp_path)] == ["a", "b", "c"]
    assert [run.name for run in retire_runs(tmp_path, keep=1)] == ["b", "a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "not a run"]


def test_a_living_run_is_never_deleted(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "alive").open()
    made.step(0)
    backdate(tmp_path / "alive", 1)
    assert is_alive(tmp_path / "alive")
    assert retire_runs(tmp_path, keep=0) == []
    made.writer.close()
    assert not is_alive(tmp_path / "alive")
    assert [run.name for run in retire_runs(tmp_path, keep=0)] == ["alive"]
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_run_elsewhere_is_left_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere/run", steps=1)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/link").symlink_to(tmp_path / "elsewhere/run")
    assert retire_runs(tmp_path / "runs", keep=0) == []
    assert (tmp_path / "elsewhere/run/run.json").exists()


SLEEP = """
import sys, time
from pathlib import Path
sys.path.append(sys.argv[2])
from made_run import MadeRun
made = MadeRun(Path(sys.argv[1])).open()
made.step(0)
print("going", flush=True)
time.sleep(60)
"""


def test_a_killed_run_is_not_alive(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLEEP, str(tmp_path / "run"), str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"going\n"
    assert is_alive(tmp_path / "run")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not is_alive(tmp_path / "run")


def test_names_of_runs() -> None:
    when = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert run_name("dir/train.py", when, "job/1") == "train-20250304-050607-job_1"
    assert run_name("pkg.main", when, "x") == "pkg.main-20250304-050607-x"
    assert run_name("train.py", when) != run_name("train.py", when)


def test_no_directory_has_no_runs(tmp_path: Path) -> None:
    assert runs_in(tmp_path / "none") == []
    assert retire_runs(tmp_path / "none", keep=3) == []
    assert not is_alive(tmp_path / "none")

"""Rows are found at once, with and without an index, while they are written, thinned and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.read.row_store import RowStore
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.stat_files import stat_files
from opscope.stats.record import ROW_DTYPE, VALID

NODES = 8


def step_rows(step: int) -> Any:
    """The rows of a step: node n has the ends -step and step; its input comes after its output."""
    rows = np.zeros(2 * NODES, ROW_DTYPE)
    rows["valid"], rows["step"] = VALID, step
    rows["node"] = rows["call"] = np.arange(2 * NODES) // 2
    rows["io"] = 1 - np.arange(2 * NODES) % 2
    rows["min"], rows["max"] = -step, step
    return rows


def write(directory: Path, steps: int, budget: int = 1 << 26, **options: Any) -> SegmentWriter:
    """A rank's rows."""
    writer = SegmentWriter(directory, budget, **options)
    for step in range(steps):
        writer.append(step_rows(step))
        writer.settle(step)
    return writer


def questions(store: RowStore) -> list[bytes]:
    """What is asked, whichever way the rows are found."""
    return [
        store.stats().tobytes(),
        store.stats(nodes={3}).tobytes(),
        store.stats(nodes={0, 5, 99}).tobytes(),
        store.stats(steps={7, 400}).tobytes(),
        store.stats(nodes={2}, steps={0, 1, 499}).tobytes(),
        store.stats(nodes=set()).tobytes(),
        store.between({1}).tobytes(),
        repr(store.steps()).encode(),
    ]


def test_answers_are_those_of_a_plain_scan(tmp_path: Path) -> None:
    write(tmp_path, 500, segment_bytes=8192).close()
    store = RowStore(tmp_path)
    everything = np.concatenate([step_rows(step).view("V128") for step in range(500)])
    rows = everything.view(ROW_DTYPE)
    assert len(store.parts) > 50 and all(part.is_final for part in store.parts)
    assert store.stats().tobytes() == rows.tobytes()
    for nodes in ({3}, {0, 5, 99}):
        plain = everything[np.isin(rows["node"], list(nodes))]
        assert store.stats(nodes=nodes).tobytes() == plain.tobytes()
    plain = everything[np.isin(rows["step"], [7, 400]) & (rows["node"] == 2)]
    assert store.stats(nodes={2}, steps={7, 400}).tobytes() == plain.tobytes()
    assert store.steps() == list(range(500))


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "lying", "empty"])
def test_a_missing_or_damaged_index_makes_no_difference(tmp_path: Path, damage: str) -> None:
    write(tmp_path, 500, budget=1 << 18).close()
    expected = questions(RowStore(tmp_path))
    indexes = sorted(tmp_path.glob("*.index"))
    assert indexes
    for path in indexes:
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[:-40])
        elif damage == "other":
            path.write_bytes(b"x" * len(content))
        elif damage == "lying":
            path.write_bytes(content[:-200] + content[-200:][::-1])
        else:
            path.write_bytes(b"")
    assert questions(RowStore(tmp_path)) == expected


def test_rows_that_a_device_fills_in_late_are_found(tmp_path: Path) -> None:
    """They are written after their segment was closed, until their step ends."""
    writer = SegmentWriter(tmp_path, 1 << 26, segment_bytes=4096)
    late: list[Any] = []
    for step in range(6):
        rows = step_rows(step)
        rows["valid"][3] = 0
        writer.append(rows)
        buffer = np.frombuffer(writer.buffer, ROW_DTYPE)
        end = writer.cursor[0] // 128
        late.append(buffer[end - 13 : end - 12])
    store = RowStore(tmp_path)
    assert len(store.stats(nodes={1})) == 6
    for step, row in enumerate(late):
        row["valid"] = VALID
        writer.settle(step)
    writer.close()
    store.refresh()
    assert store.stats(nodes={1})["step"].tolist() == [s for s in range(6) for _ in range(2)]
    assert all(file.index.exists() for file in stat_files(tmp_path))
    assert questions(store) == questions(RowStore(tmp_path))


def test_a_refresh_reads_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    writer = write(tmp_path, 100, segment_bytes=8192)
    store = RowStore(tmp_path)
    first = store.stats()
    before = store.parts
    for step in range(100, 200):
        writer.append(step_rows(step))
    assert len(store.stats()) == len(first)
    store.refresh()
    assert len(store.stats()) == 2 * len(first)
    closed = [part for part in before if part.is_final]
    assert len(closed) > 5 and all(part in store.parts for part in closed)
    writer.close()
    store.refresh()
    assert questions(store) == questions(RowStore(tmp_path))


def test_what_is_no_file_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "000000.rows")
    (tmp_path / "000001.rows").write_bytes(b"")
    assert len(RowStore(tmp_path).stats()) == 0
    assert "000000.rows is a FIFO, no regular file; left out" in capsys.readouterr().err
    (tmp_path / "000001.rows").unlink()
    assert len(RowStore(tmp_path).stats()) == 0


def each_step_once(store: RowStore) -> int:
    """Check that every step so far is there once, whole or within extremes; returns how many."""
    rows, between = store.history({3})
    rows, between = rows[rows["io"] == 1], between[between["io"] == 1]
    steps = rows["step"].tolist()
    assert steps == sorted(set(steps))
    assert (rows["max"] == rows["step"]).all()
    seen = len(steps) + int(between["rows"].sum())
    assert seen == max([*steps, *between["last"].tolist()], default=-1) + 1
    return seen


def test_threads_read_while_another_writes_and_thins(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, 1 << 20)
    store = RowStore(tmp_path)
    done = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        seen = 0
        try:
            while not done.is_set():
                store.refresh()
                each_step_once(store)
                now = each_step_once(RowStore(tmp_path))
                assert now >= seen
                seen = now
        except BaseException as error:  # noqa: BLE001 - for the main thread to raise
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(3000):
        writer.append(step_rows(step))
    done.set()
    for thread in threads:
        thread.join()
    writer.close()
    assert not failures, failures[0]
    assert writer.thinned > 1000 and writer.dropped == 0
    assert each_step_once(RowStore(tmp_path)) == 3000


WRITE_FOREVER = """
import itertools, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_row_store import step_rows
from opscope.rundir.segments import SegmentWriter
writer = SegmentWriter(Path(sys.argv[1]), 1 << 20)
for step in itertools.count():
    writer.append(step_rows(step))
    if step == 2000:
        print("going", flush=True)
"""


@pytest.mark.parametrize("wait", [0.0, 0.011, 0.037])
def test_a_kill_while_rows_are_thinned_loses_none(tmp_path: Path, wait: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(tmp_path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"going\n"
    time.sleep(wait)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert any(file.level for file in stat_files(tmp_path))
    assert each_step_once(RowStore(tmp_path)) > 2000


@pytest.mark.parametrize("deletions", range(7))
def test_a_kill_at_any_point_of_thinning_loses_none(tmp_path: Path, deletions: int) -> None:
    """Thinning writes three files and deletes two or three for each it replaces: stop at each."""
    code = """
import sys, os
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_row_store import step_rows
from opscope.rundir import history
from opscope.rundir.segments import SegmentWriter
left = int(sys.argv[2])
def dying(action):
    def run(*args, **kwargs):
        global left
        if started and left == 0:
            os.kill(os.getpid(), 9)
        left -= started
        return action(*args, **kwargs)
    return run
started = False
history.write_whole = dying(history.write_whole)
Path.unlink = dying(Path.unlink)
writer = SegmentWriter(Path(sys.argv[1]), 1 << 20)
thin = writer._history._thin
def thinning(batch):
    global started
    started = batch[0].file.level == 1
    return thin(batch)
writer._history._thin = thinning
for step in range(100_000):
    writer.append(step_rows(step))
"""
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(deletions), here])
    assert done.returncode == -signal.SIGKILL
    assert each_step_once(RowStore(tmp_path)) > 100


def mapped(directory: Path) -> list[str]:
    """The files of a directory that this process has mapped."""
    return [line for line in Path("/proc/self/maps").read_text().split() if str(directory) in line]


def test_nothing_stays_mapped_between_questions(tmp_path: Path) -> None:
    write(tmp_path, 500, budget=1 << 18).close()
    store = RowStore(tmp_path)
    assert any(part.file.level for part in store.parts)
    questions(store)
    assert not mapped(tmp_path)
    rows = store.parts[0].stats(None, None)
    assert mapped(tmp_path)
    del rows
    assert not mapped(tmp_path)


def test_files_that_are_thinned_away_are_still_read(tmp_path: Path) -> None:
    write(tmp_path, 500, budget=1 << 18).close()
    expected = questions(RowStore(tmp_path))
    store = RowStore(tmp_path)
    assert store.parts
    for path in tmp_path.iterdir():
        path.unlink()
    assert questions(store) == expected


def test_a_store_of_more_files_than_may_be_open_is_read_whole(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_row_store import RowStore, write
directory = Path(sys.argv[1])
write(directory, 500, segment_bytes=8192).close()
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
store = RowStore(directory)
print(len(store.parts) > 50, len(store.stats()))
"""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), here], capture_output=True, text=True
    )
    assert done.stdout == f"True {500 * 2 * NODES}\n", done.stderr
    assert not done.stderr

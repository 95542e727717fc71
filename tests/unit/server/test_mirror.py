"""A copy of a run that is being written, thinned and cut short reads as the run itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.live.run_files import FileVerbs, RunFiles
from opscope.locks import is_held
from opscope.read.row_store import RowStore
from opscope.rundir.jsonlines import LineTail
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.step_log import StepLog
from opscope.server.mirror import Mirror, mirror_place
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, VALID

ROWS_PER_STEP = 20


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread: tests in a browser leave a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


class Copied:
    """A rank that writes rows and steps, and its copy."""

    def __init__(self, folder: Path, budget: int = 1 << 20) -> None:
        self.run, self.copy = folder / "run", folder / "copy"
        self.rank = self.run / "rank_3"
        (self.rank / "stats").mkdir(parents=True)
        (self.run / "run.json").write_text("{}")
        self.writer = SegmentWriter(self.rank / "stats", budget)
        self.steps = StepLog(self.rank / "steps.jsonl", 1 << 14)
        self.verbs = FileVerbs(RunFiles(self.run, 3), lambda: None).verbs
        self.mirror = Mirror(self.copy, 3)
        self.asked = 0
        self.step = 0

    def train(self, count: int) -> None:
        rows = np.zeros(ROWS_PER_STEP, ROW_DTYPE)
        rows["valid"], rows["io"] = VALID, 1
        rows["node"] = rows["call"] = np.arange(ROWS_PER_STEP)
        for self.step in range(self.step, self.step + count):  # noqa: B020 - where it stands
            rows["step"] = self.step
            self.writer.append(rows)
            self.steps.append({"step": self.step})
            self.writer.settle(self.step)
        self.step += 1

    def catch_up(self) -> None:
        async def ask(verb: str, args: dict[str, Any]) -> Any:
            self.asked += verb == "read"
            return self.verbs[verb](args)

        finish(self.mirror.catch_up(ask))

    def compare(self) -> None:
        mine, copied = (RowStore(place / "rank_3" / "stats") for place in (self.run, self.copy))
        assert copied.stats().tobytes() == mine.stats().tobytes()
        assert copied.between().tobytes() == mine.between().tobytes()
        lines = [
            [value for _, value in LineTail(place / "rank_3" / "steps.jsonl").numbered()]
            for place in (self.run, self.copy)
        ]
        assert lines[0] == lines[1]


def test_a_copy_follows_a_run_that_is_thinned(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    for count in (1, 3, 40, 200, 900, 2500, 1, 1):
        copied.train(count)
        copied.catch_up()
        copied.compare()
    assert len(list((copied.copy / "rank_3" / "stats").glob("*-*.rows"))) > 1  # it was thinned
    copied.writer.close()
    copied.catch_up()
    copied.compare()
    names = [
        sorted(p.name for p in (r / "rank_3" / "stats").iterdir())
        for r in (copied.run, copied.copy)
    ]
    assert names[0] == names[1]


def test_what_is_here_is_not_asked_for_again(tmp_path: Path) -> None:
    copied = Copied(tmp_path, 1 << 30)
    copied.train(50)
    copied.catch_up()
    before = copied.asked
    copied.catch_up()
    assert copied.asked == before
    copied.train(1)
    copied.catch_up()
    assert copied.asked == before + 2  # the step's line, and its rows
    copied.mirror = Mirror(copied.copy, 3)  # a server that has begun anew
    copied.train(1)
    copied.catch_up()
    copied.compare()


def test_rows_that_come_late_are_copied_when_they_are_there(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    copied.train(3)
    hole = 25 * ROW_BYTES
    whole = bytes(copied.writer.buffer[hole : hole + ROW_BYTES])
    copied.writer.buffer[hole] = 0
    copied.catch_up()
    copied.compare()
    copied.writer.buffer[hole : hole + ROW_BYTES] = whole
    copied.train(2)
    copied.catch_up()
    copied.compare()


def test_a_copy_reads_as_running_while_its_rank_is_connected(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    copied.mirror.open()
    assert is_held(copied.copy / "rank_3" / "lock")
    copied.mirror.close()
    assert not is_held(copied.copy / "rank_3" / "lock")


@pytest.mark.parametrize(
    "listed",
    [
        None,
        [["../escaped", 1, 10, 10]],
        [["rank_3/../../escaped", 1, 10, 10]],
        [["rank_4/nodes.jsonl", 1, 10, 10]],
        [["rank_3/nodes.jsonl", 1, -10, 10]],
        [["rank_3/nodes.jsonl", 1, "10", 10]],
        ["rank_3/nodes.jsonl"],
        [[7, 1, 10, 10]],
        {"rank_3/nodes.jsonl": 1},
    ],
)
def test_what_a_rank_may_not_send_is_not_copied(tmp_path: Path, listed: Any) -> None:
    async def ask(verb: str, args: dict[str, Any]) -> Any:
        return listed if verb == "files" else b"0123456789"

    copy = tmp_path / "some" / "copy"
    finish(Mirror(copy, 3).catch_up(ask))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "directory", ["/a/..", "/", "", "/a/.hidden", "/a/\x00b", "/a/" + "x" * 400]
)
def test_the_place_of_a_copy_stays_where_copies_are(tmp_path: Path, directory: str) -> None:
    place = mirror_place(tmp_path, directory, "id")
    assert place.parent == tmp_path and len(place.name) < 140
    place.mkdir()

"""How training ended, in the words of end.json and incomplete.json."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from made_run import MadeRun

from opscope.read.run import open_run
from opscope.rundir.ending import Ending, failure


def _left_by_a_starter_of_ranks() -> BaseException:
    try:
        try:
            raise ValueError("too much")
        except ValueError:
            raise SystemExit(1)  # noqa: B904 - as torch.multiprocessing does
    except SystemExit as error:
        return error


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (SystemExit(), Ending()),
        (SystemExit(0), Ending()),
        (SystemExit(4), Ending("failed", "SystemExit", "4", 7)),
        (KeyboardInterrupt(), Ending("failed", "KeyboardInterrupt", "", 7)),
        (RuntimeError("one\ntwo"), Ending("failed", "RuntimeError", "one", 7)),
        (_left_by_a_starter_of_ranks(), Ending("failed", "ValueError", "too much", 7)),
    ],
)
def test_an_exception_in_words(error: BaseException, ending: Ending) -> None:
    assert failure(error, 7) == ending


@pytest.mark.parametrize("steps", [0, 3])
def test_a_full_disk_is_told_with_the_last_whole_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    made = MadeRun(tmp_path).open()
    for step in range(steps):
        made.step(step)

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)  # lines; the files that tell of it have their place
    made.step(steps)
    run = open_run(tmp_path)
    since = f"after step {steps - 1}" if steps else "from the start"
    assert run.state == f"running; recording incomplete {since}: disk full"
    made.writer.close()
    assert run.state == f"recording incomplete {since}: disk full"
    found = json.loads((tmp_path / "rank_0/incomplete.json").read_text())
    assert found == {"after": steps - 1 if steps else None, "why": "disk full"}

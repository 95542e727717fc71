"""Files of a run as a server on another machine is told of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from opscope.live.run_files import RunFiles
from opscope.rundir.jsonlines import dumps


@pytest.mark.parametrize("name", ["steps.jsonl", "end.json"])
def test_a_file_that_was_replaced_is_another_one(tmp_path: Path, name: str) -> None:
    """The disk gives the inode of a file that is gone to the next one."""
    folder = tmp_path / "rank_0"
    folder.mkdir()
    files = RunFiles(tmp_path, 0)
    seen = []
    for number in range(30):
        draft = folder / "draft"
        draft.write_text(f'{{"step": {number:02}}}\n')
        draft.rename(folder / name)
        (found,) = files.listing()
        seen.append(found.identity)
    assert len(set(seen)) == 30
    (found,) = files.listing()
    assert found.identity == seen[-1], "it is still the same"


def test_lines_that_are_appended_leave_a_file_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0"
    folder.mkdir()
    files = RunFiles(tmp_path, 0)
    seen = set()
    for number in range(3):
        with (folder / "steps.jsonl").open("a") as file:
            file.write(f'{{"step": {number}}}\n')
        (found,) = files.listing()
        seen.add(found.identity)
    assert len(seen) == 1


def test_inodes_of_64_bits_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "rank_0" / "stats"
    folder.mkdir(parents=True)
    (folder / "000000.index").write_bytes(b"1")
    plain = os.fstat
    large = {"st_ino": (1 << 63) + 5}

    def fstat(descriptor: int) -> SimpleNamespace:
        facts = plain(descriptor)
        return SimpleNamespace(
            **{n: getattr(facts, n) for n in dir(facts) if n.startswith("st_")} | large
        )

    monkeypatch.setattr(os, "fstat", fstat)
    (found,) = RunFiles(tmp_path, 0).listing()
    assert json.loads(dumps(list(found))) == list(found)

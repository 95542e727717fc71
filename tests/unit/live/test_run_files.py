"""Files of a run as a server on another machine is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.live.run_files import RunFiles


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

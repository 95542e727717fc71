"""Dumps of every kind, and those of earlier versions, open with `opscope.open` and `check`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_dump_shared import SCRIPT, write_config

import opscope
from helpers.forked import forked_opscope as run_opscope

KINDS: dict[str, dict[str, Any]] = {
    "npy": {},
    "full": {"saved_data": "full"},
    "bin": {"file_format": "bin", "saved_data": "full"},
    "samples": {"sample_mode": 1, "sample_num": 3},
    "memory order": {"trans_flag": False},
    "arguments": {"save_kernel_args": True},
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dumps")
    names: dict[str, Any] = {"__name__": "plain"}
    exec(SCRIPT, names)
    found = {}
    for kind, options in KINDS.items():
        path = folder / kind
        path.mkdir()
        with opscope.start(dump=write_config(path, enable=False, **options)):
            names["train"]()
        found[kind] = path / "dump"
    return found


def as_before(dump: Path, target: Path) -> Path:
    """A dump as the first version wrote it: without graphs, constants and new manifest fields."""
    shutil.copytree(dump, target)
    shutil.rmtree(target / "rank_0/graphs")
    shutil.rmtree(target / "rank_0/Net/0/constants", ignore_errors=True)
    file = target / "rank_0/.dump_metadata/manifest.json"
    manifest = json.loads(file.read_text())
    for key in ("sample_num", "constants"):
        del manifest[key]
    for iteration in manifest["iterations"]:
        del iteration["values"]
    file.write_text(json.dumps(manifest))
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_open_and_check(dumps: dict[str, Path], kind: str, tmp_path: Path) -> None:
    found = opscope.open(dumps[kind])
    assert "3 steps" in repr(found) or "4 steps" in repr(found)
    done = run_opscope("check", dumps[kind], cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert "not read here" not in done.stdout + done.stderr


def test_a_dump_of_an_earlier_version(dumps: dict[str, Path], tmp_path: Path) -> None:
    old = as_before(dumps["full"], tmp_path / "old")
    assert (
        repr(opscope.open(old)).partition(",")[2]
        == (repr(opscope.open(dumps["full"])).partition(",")[2])
    )
    done = run_opscope("check", old, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr

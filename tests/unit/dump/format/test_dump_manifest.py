from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import NewDump, make_node

import opscope
from opscope.dump.format.manifest import Manifest, run_of
from opscope.dump.layout import MANIFEST


def test_counts_files_bytes_and_rows(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="full") as dump:
        for _ in range(2):
            dump.call(make_node(), [torch.ones(3)], [torch.ones(5)])
            dump.end_step()
    manifest = dump.manifest()
    assert manifest["run"] == "run-a"
    assert manifest["rank"] == 0
    assert manifest["complete"] is True
    assert manifest["failure"] is None
    size = sum(file.stat().st_size for file in dump.directory(1).glob("*.npy"))
    expected = {"files": 2, "bytes": size, "values": 2, "rows": 2, "complete": True, "passes": []}
    assert manifest["iterations"] == [{"iteration": step} | expected for step in range(2)]


def test_it_is_incomplete_until_the_end(new_dump: NewDump) -> None:
    with new_dump() as dump:
        assert dump.manifest()["complete"] is False
        dump.call(make_node(), outputs=[torch.ones(1)])
        assert dump.manifest()["iterations"] == []
        dump.end_step()
        assert dump.manifest()["complete"] is False
        assert [each["complete"] for each in dump.manifest()["iterations"]] == [True]
    assert dump.manifest()["complete"] is True
    assert dump.manifest()["started"] < dump.manifest()["ended"]


def test_a_step_that_was_under_way_is_incomplete(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable) as dump:
        for complete in (True, False):
            dump.call(make_node(), outputs=[torch.ones(1)])
            dump.end_step(complete)
        dump.call(make_node(), outputs=[torch.ones(1)])
    manifest = dump.manifest()
    assert [each["complete"] for each in manifest["iterations"]] == [True, False, False]
    assert manifest["complete"] is True


def test_an_empty_rest_is_no_iteration(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable) as dump:
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.end_step()
        dump.end_step(complete=False)
    assert len(dump.manifest()["iterations"]) == 1


def test_config_and_versions(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable) as dump:
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.end_step()
    metadata = dump.root / ".dump_metadata"
    assert (metadata / "data_dump.json").read_text() == dump.settings.text
    config = json.loads((metadata / "config.json").read_text())
    assert config["framework"] == "torch"
    assert config["device_target"] == ("GPU" if torch.cuda.is_initialized() else "CPU")
    assert config["torch_version"] == torch.__version__
    assert config["opscope_version"] == opscope.__version__
    assert config["python_version"] == sys.version.split()[0]
    assert config["numpy_version"] == np.__version__


def test_nothing_temporary_is_left(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="full") as dump:
        for _ in range(2):
            dump.call(make_node(), [torch.ones(1)], [torch.ones(1)])
            dump.end_step()
        dump.call(make_node(), [torch.ones(1)], [torch.ones(1)])
    assert not list(dump.root.rglob(".tmp"))


def test_permissions_follow_the_umask(new_dump: NewDump, enable: bool) -> None:
    before = os.umask(0o027)
    try:
        with new_dump(enable, saved_data="full") as dump:
            dump.call(make_node(), outputs=[torch.ones(1)])
            dump.end_step()
    finally:
        os.umask(before)
    entries = list(dump.root.rglob("*"))
    assert len(entries) > 10
    modes = {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in entries}
    assert modes == {(True, 0o750), (False, 0o640)}


def test_writing_the_manifest_takes_a_small_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    manifest = Manifest("run", 0)
    assert manifest.is_due()
    written = 0
    for iteration in range(1000):
        now += 0.003
        manifest.finish_iteration(iteration, True)
        if manifest.is_due():
            manifest.was_written(0.001)
            written += 1
    assert 20 < written < 35
    now += 1
    assert manifest.is_due()


def test_skipped_entries_are_bounded() -> None:
    manifest = Manifest("run", 0)
    for number in range(5000):
        manifest.skip(f"node{number}", "input", 0, "sparse tensors")
    content = json.loads(manifest.to_json())
    assert content["skipped_values"] == 5000
    assert len(content["skipped"]) == 1000


def test_the_summary_is_for_people(new_dump: NewDump, enable: bool, tmp_path: Path) -> None:
    with new_dump(enable, saved_data="full") as dump:
        dump.call(make_node(), [torch.ones(300_000)], [torch.ones(5)])
        dump.end_step()
    expected = "2 files (1.2 MB) and 2 rows of 1 iteration"
    assert dump.sink.summary() == f"{expected} in {tmp_path / 'dump'}"


def test_the_run_of_a_manifest_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / MANIFEST
    file.parent.mkdir()
    for text in ("[" * 10**5, "7", "\udcff"):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert run_of(tmp_path) is None
    file.unlink()
    os.mkfifo(file)
    assert run_of(tmp_path) is None

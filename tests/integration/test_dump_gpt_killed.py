"""A dump of the GPT that is killed at random moments leaves whole files and a true manifest."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_dump_shared import load, write_config

from helpers.program import clean_environment
from opscope.dump.format.pack import PackReader

GPT = Path(__file__).parents[2] / "examples" / "tiny_gpt.py"
STEPS = 10
KILLS = 20


def start(folder: Path, config: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "opscope", "run", "--dump", str(config), str(GPT)]
    return subprocess.Popen(
        [*command, "--steps", str(STEPS)],
        cwd=folder,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_after(process: subprocess.Popen[bytes], rank: Path, moment: random.Random) -> bool:
    """Kill a training some time after it has begun to write; returns whether it was in time."""
    due = time.monotonic() + 120
    while not (rank / "Net").exists():
        assert process.poll() is None and time.monotonic() < due
        time.sleep(0.002)
    time.sleep(moment.uniform(0, 4))
    in_time = process.poll() is None
    process.kill()
    process.wait()
    return in_time and process.returncode == -signal.SIGKILL


def wait_for_writer(rank: Path) -> None:
    """The process that writes in the background ends by itself, and says so."""
    due = time.monotonic() + 60
    while not manifest_of(rank).get("ended"):
        assert time.monotonic() < due
        time.sleep(0.05)


def manifest_of(rank: Path) -> dict[str, Any]:
    return json.loads((rank / ".dump_metadata/manifest.json").read_text())


def visible_files(rank: Path) -> Iterator[Path]:
    """The files, without what is temporary; directories of that may vanish while we look."""
    for folder, folders, names in os.walk(rank):
        folders[:] = [name for name in folders if name != ".tmp"]
        yield from (Path(folder, name) for name in names)


def check_tree(rank: Path) -> int:
    """Every file is whole, and finished iterations have what the manifest says of them."""
    for file in visible_files(rank):
        if file.suffix == ".npy":
            load(file)
        elif file.suffix == ".safetensors":
            reader = PackReader(file)
            assert all(reader[name] is not None for name in reader)
        elif file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".csv":
            check_table(file)
        else:
            assert file.suffix in (".ir", ".pb")
            assert file.stat().st_size > 1000
    manifest = manifest_of(rank)
    if manifest["complete"]:  # it was killed on its way out
        assert all(each["complete"] for each in manifest["iterations"][:STEPS])
    finished = [each for each in manifest["iterations"] if each["complete"]]
    for each in finished:
        folder = rank / "Net/0" / str(each["iteration"])
        files = [*folder.glob("*.npy"), *folder.glob("*.safetensors")]
        assert len(files) == each["files"]
        assert sum(file.stat().st_size for file in files) == each["bytes"]
        with (folder / "statistic.csv").open(newline="") as lines:
            assert len(list(csv.reader(lines))) - 1 == each["rows"]
    return len(finished)


def check_table(file: Path) -> None:
    data = file.read_bytes()
    assert data.endswith(b"\n")
    table = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    assert len({len(row) for row in table}) == 1, file


@pytest.mark.parametrize(
    ("kills", "seed"),
    [pytest.param(1, 0, id="few"), pytest.param(KILLS, 1, id="many", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("file_format", ["npy", pytest.param("bin", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "enable", [True, pytest.param(False, marks=pytest.mark.long)], ids=["sync", "async"]
)
def test_killed_at_random_moments(tmp_path: Path, enable, file_format, kills, seed) -> None:
    moment = random.Random(seed)
    killed = finished = 0
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = {"saved_data": "full", "statistic_category": ["max", "md5"]}
        config = write_config(folder, enable=enable, file_format=file_format, **options)
        rank = folder / "dump/rank_0"
        if not kill_after(start(folder, config), rank, moment):
            continue
        if not enable:
            wait_for_writer(rank)
            manifest = manifest_of(rank)
            assert manifest["complete"] or "ended without closing" in manifest["failure"]
        killed += 1
        finished += check_tree(rank)
    assert killed >= kills // 2
    assert finished or kills < KILLS

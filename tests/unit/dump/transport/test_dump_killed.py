from __future__ import annotations

import csv
import io
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import MadeDump, make_node, make_settings

ENDLESS = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from made_dump import MadeDump, make_node, make_settings
settings = make_settings(Path(sys.argv[2]), enable=sys.argv[3] == "sync", saved_data="full",
                         statistic_category=sys.argv[4].split())
nodes = [make_node(f"D/{'a' * 250 * (n == 3)}a-op{n}") for n in range(30)]
with MadeDump(settings) as dump:
    dump.at_step_end = True
    while True:
        for number, node in enumerate(nodes):
            dump.call(node, outputs=[torch.full((number * 700,), float(number))])
        dump.end_step()
"""


def kill_while_dumping(path: Path, mode: str, categories: str, seconds: float) -> None:
    here = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", ENDLESS, here, str(path), mode, categories]
    process = subprocess.Popen(command)
    try:
        due = time.monotonic() + 60
        while not list(path.glob("rank_0/Net/0/0/*.npy")):
            assert process.poll() is None and time.monotonic() < due
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def check_files(root: Path) -> None:
    files = list(root.rglob("*.npy"))
    assert files
    for file in files:
        array = np.load(file, allow_pickle=False)
        assert array.size % 700 == 0
        assert (array == array.size // 700).all()
    for mapping in root.rglob("mapping.csv"):
        names = {line.split(",")[0] for line in mapping.read_text().splitlines()}
        short = {each.name for each in mapping.parent.glob("*.npy") if len(each.name) == 24}
        assert short <= names


def check_table(file: Path, finished: bool) -> None:
    """Its rows are whole and in their order, and of a finished step they are all there."""
    data = file.read_bytes()
    assert data.endswith(b"\r\n")
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    assert all(len(row) == len(header) for row in rows)
    tasks = [int(row[2]) for row in rows]
    assert tasks == list(range(len(rows)))
    assert not finished or len(rows) == 30


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("categories", ["max md5", "max"], ids=["digests", "rows that come ready"])
def test_a_killed_run_leaves_only_whole_files(tmp_path: Path, mode: str, categories: str) -> None:
    for round_number in range(2):
        path = tmp_path / f"dump{round_number}"
        kill_while_dumping(path, mode, categories, random.Random(round_number).uniform(0, 0.3))
        # The next run waits for the last values of this one, then moves it aside.
        settings = make_settings(path)
        with MadeDump(settings, "next") as dump:
            dump.call(make_node(), outputs=[torch.zeros(0)])
        (killed,) = (path / ".previous").glob("*/rank_0")
        check_files(killed)
        manifest = json.loads((killed / ".dump_metadata/manifest.json").read_text())
        assert manifest["complete"] is False
        finished = [each for each in manifest["iterations"] if each["complete"]]
        for each in finished:
            directory = killed / "Net/0" / str(each["iteration"])
            sizes = [file.stat().st_size for file in directory.glob("*.npy")]
            assert (len(sizes), sum(sizes)) == (each["files"], each["bytes"]) == (30, sum(sizes))
            assert each["rows"] == 30
        done = {str(each["iteration"]) for each in finished}
        for table in killed.rglob("statistic.csv"):
            check_table(table, table.parent.name in done)
        if mode == "async":
            assert "ended without closing" in manifest["failure"]

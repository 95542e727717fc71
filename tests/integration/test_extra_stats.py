"""Extra statistics of real trainings: what is written, who shows it, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import opscope
from helpers.forked import forked_opscope
from helpers.models import MODELS, assert_identical
from helpers.program import clean_environment, python
from helpers.recorder import recording
from helpers.watched import watched
from opscope.read.extra_stats import place_of
from opscope.read.run import open_run
from opscope.rundir.extra_writer import ExtraStatsWriter
from opscope.stats.extra import names

ALL = ",".join(names())
SCRIPT = """
import os, sys, torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    x = torch.randn(32, 8)
    if step == 2:
        x[0, 0] = 1e4
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    os.write(1, b"step %d\\n" % step)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extra")
    (folder / "train.py").write_text(SCRIPT)
    words = ("--no-page", "--extra-stats", ALL, "--run-dir", "run", "train.py", "4")
    done = forked_opscope("run", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def asked(run: Path, *words: str) -> list[dict]:
    done = forked_opscope(*words, "--json", cwd=run.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_value_with_a_row_has_them(run: Path) -> None:
    rank = open_run(run).rank(0)
    rows = [place_of(record) for record in rank.stats()]
    extra = [place_of(record) for part in rank.extra_stats.parts() for record in part]
    assert sorted(extra) == sorted(rows) and len(set(rows)) > 100
    assert all(rank.extra_stats.meanings.values())


def test_they_are_columns_of_a_table(run: Path) -> None:
    where = "op_type = 'addmm' and phase = 'forward' and io = 'output'"
    sql = f"select step, kurtosis from extra_stats where {where} order by 2"
    lines = asked(run, "query", "run", sql)
    assert lines[-1]["step"] == 2 and lines[-1]["kurtosis"] > 10
    joined = (
        "select e.name, e.median_abs, s.mean_abs from extra_stats e join stats s "
        "using (rank, step, call, io, slot) where s.count = 1"
    )
    ones = asked(run, "query", "run", joined)
    assert ones and all(abs(line["median_abs"] - line["mean_abs"]) < 1e-12 for line in ones)


def test_a_node_is_shown_with_them(run: Path) -> None:
    view = asked(run, "show", "run", "addmm-op0")
    assert {*view["outputs"][0]["rows"][0]["extra"]} == {*names()}
    done = forked_opscope("show", "run", "addmm-op0", cwd=run.parent)
    heads = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["step"]]
    assert heads and all({*names()} <= {*head} for head in heads)


def test_values_have_them_and_the_api_too(run: Path) -> None:
    from opscope.read.reader import open_reader
    from opscope.views.node_details import node_details, series
    from opscope.views.rank_view import RankView

    value = opscope.open(run).select_values("addmm-op0", steps=[1], io="output")[0]
    assert {*value.extra} == {*names()}
    view = RankView(open_reader(str(run)), 0)
    side = node_details(view, value.node.id, 1)["outputs"][0]
    assert side["extra"] == value.extra
    told = series(view, value.node.id, "output", 0, ["max", "kurtosis"])
    assert told["numbers"]["kurtosis"][1] == value.extra["kurtosis"]
    assert len(told["numbers"]["kurtosis"]) == len(told["numbers"]["max"]) == 4


@pytest.mark.parametrize("train", MODELS[::3], ids=lambda train: train.__name__)
def test_training_is_the_same_with_them(train, tmp_path: Path) -> None:
    plain = train()
    (tmp_path / "rank_0").mkdir()
    sink = ExtraStatsWriter(tmp_path, names(), 1 << 30)
    with recording(sink):
        same = train()
    assert_identical(plain, same)
    assert (tmp_path / "rank_0/extra_stats/000000.numbers").stat().st_size > 10_000


def test_what_was_written_survives_being_killed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ("run", "--no-page", "--extra-stats", ALL, "--run-dir", "run", "train.py", "100000")
    with subprocess.Popen(
        [sys.executable, "-m", "opscope", *words],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == b"step 5\n":
                break
        os.kill(process.pid, signal.SIGKILL)
    rank = open_run(tmp_path / "run").rank(0)
    rows = {place_of(record) for record in rank.stats(steps=range(5))}
    extra = {place_of(r) for part in rank.extra_stats.parts(steps=range(5)) for r in part}
    assert rows == extra and len(rows) > 100


def test_a_bad_name_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(7)")
    began = time.monotonic()
    done = python(
        *("-X", "importtime", "-m", "opscope", "run", "--extra-stats", "kurtosi,max", "train.py"),
        cwd=tmp_path,
    )
    assert done.returncode == 2 and time.monotonic() - began < 20
    assert '"kurtosi": is no extra statistic (did you mean "kurtosis"?); there are' in done.stderr
    assert '--extra-stats = "max": is no extra statistic; there are' in done.stderr
    assert " numpy" not in done.stderr and " torch" not in done.stderr


def test_from_a_project_file_and_from_code(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opscope.toml").write_text('extra_stats = ["subnormal"]\n')
    with watched(tmp_path) as found:
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert {*open_run(found.folder).rank(0).extra_stats.meanings} == {"subnormal"}
    with watched(tmp_path / "b", extra_stats=("median_abs",)) as found:
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert {*open_run(found.folder).rank(0).extra_stats.meanings} == {"median_abs"}


def test_without_them_there_is_nothing_of_them(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert not (found.rank / "extra_stats").exists()
    assert open_run(found.folder).rank(0).extra_stats.meanings == {}


def test_expressions_say_that_they_have_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(7)")
    done = forked_opscope("run", "--watch", "kurtosis > 9", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "kurtosis is an extra statistic; expressions are about those of every row" in done.stderr

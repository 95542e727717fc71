"""The seventeen conditions of the seeds: what each says of a real training, and where."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from helpers.watched import watched
from opscope.commands import main
from opscope.judge.catalogue import BY_NAME

SEEN = {
    "TO": ("", "a tensor holds NaN or Inf: "),
    "OO": ("", "sqrt turns sound inputs into 3 NaN"),
    "TZ": ("zero_percentage_ge=60", "100 % of the elements are zero, at least 60 %"),
    "TR": ("max_min_gt=0.1", "max - min is "),
    "TL": ("abs_mean_gt=0.01", "mean |x| is "),
    "TS": ("max_lt=50", "max is "),
    "WI": ("", "100 % of the elements are zero, at least 100 %"),
    "WO": ("", "a weight holds NaN or Inf: "),
    "WL": ("max_gt=0.001", "max is "),
    "WS": ("min_lt=5", "min is "),
    "WNC": ("", "a weight is as it was in the step before"),
    "WCL": ("abs_mean_update_ratio_gt=1e-6", "mean |change| / mean |before| is "),
    "WCS": ("abs_mean_update_ratio_lt=1e6", "mean |change| / mean |before| is "),
    "AR": ("max_min_lt=0.5", "max - min is 0, below 0.5"),
    "GE": ("", "a gradient holds NaN or Inf: "),
    "GL": ("abs_mean_gt=1e-9", "mean |x| is "),
    "GV": ("abs_mean_lt=1e9", "mean |x| is "),
}
"""By condition: thresholds that this training passes, and what is said of what was seen."""


class Told(NamedTuple):
    """What was said of a training."""

    hits: dict[str, Any]
    """By condition: the first hit, as it is written."""
    terminal: str
    listed: str
    as_json: list[dict[str, Any]]


def train() -> None:
    """Three sound steps, and one that turns NaN."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    nn.init.zeros_(model[2].bias)
    nn.init.constant_(model[0].bias, -100.0)
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(5):
        optimizer.zero_grad()
        y = model(torch.randn(1, 3))  # the network
        loss = (y + 9).sqrt() if step != 3 else (y - 9).sqrt()  # the loss
        loss.sum().backward()
        optimizer.step()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("seeds")
    spec = "; ".join(f"{abbr} {given}" for abbr, (given, _) in SEEN.items())
    with (
        contextlib.redirect_stderr(io.StringIO()) as terminal,
        watched(folder, watch=spec, on_hit="log", save_state="none", record=True) as found,
    ):
        train()
    first = {line["condition"]: line for line in reversed(found.written)}
    run = str(found.folder)
    listed, as_json = (_printed("hits", run, "--first", "0", *more) for more in ((), ("--json",)))
    return Told(first, terminal.getvalue(), listed, json.loads(as_json))


def _printed(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(words)
    return out.getvalue()


def _lines() -> set[str]:
    text = Path(__file__).read_text().splitlines()
    marks = ("# the network", "# the loss", "loss.sum().backward()", "optimizer.step()")
    return {f"{__file__}:{n}" for n, line in enumerate(text, 1) if line.strip().endswith(marks)}


def test_there_are_seventeen() -> None:
    assert len(SEEN) == 17


@pytest.mark.parametrize("abbr", SEEN)
def test_a_hit_says_what_was_seen_and_expected(abbr: str, told: Told) -> None:
    hit = told.hits[abbr]
    assert hit["message"].startswith(SEEN[abbr][1]), hit["message"]
    assert hit["where"] in _lines()
    limits = {key: value for key, value in hit["params"].items() if key in hit["actual"]}
    assert all(f"{value:g}" in hit["message"] for value in limits.values())


@pytest.mark.parametrize("abbr", SEEN)
def test_a_hit_says_what_helps(abbr: str, told: Told) -> None:
    hit = told.hits[abbr]
    if abbr == "OO":
        assert "check how it got there" in hit["verdict"]["advice"]
        assert f"advice    {hit['verdict']['advice']}" in told.terminal
        return
    advice = BY_NAME[abbr].advice
    assert advice and hit["message"].endswith(f"; {advice}")


@pytest.mark.parametrize("abbr", SEEN)
def test_it_is_said_everywhere(abbr: str, told: Told) -> None:
    hit = told.hits[abbr]
    line = int(hit["where"].rpartition(":")[2])
    assert any(each["message"] == hit["message"] for each in told.as_json)
    place = f"{Path(__file__).name}:{line}"
    about = [each for each in told.listed.splitlines() if f" {hit['label']} " in f" {each} "]
    assert any(place in each for each in about), about
    if hit["condition"] not in ("TO", "OO", "GE", "WO"):  # of these the verdict says more
        assert hit["message"] in told.terminal
    assert place in told.terminal

"""Watchpoints on a GPU: the verdict is for the right step, `--strict` stops before the update."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.program import opscope

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

FAULT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
for step in range(8):
    out = model(torch.randn(32, 8, device="cuda"))
    if step == 3:
        out = out - out
    loss = out.square().mean().log()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINE = 1 + FAULT.splitlines().index("    loss = out.square().mean().log()")

HEALTHY = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24)
mask = torch.full((4, 4), float("-inf"), device="cuda").triu(1)
for step in range(30):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(torch.randn(32, 8, device="cuda"))
        scores = (out[:4] @ out[:4].T + mask).softmax(-1)
        loss = out.float().square().mean() + scores.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def hits_of(run: Path) -> list[dict[str, Any]]:
    file = run / "rank_0" / "hits.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("flags", [[], ["--strict"]])
def test_the_origin_is_found_on_a_gpu(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "train.py").write_text(FAULT)
    done = opscope("run", *flags, "--run-dir", "run", "train.py", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert re.findall(r"^origin: (.*)$", done.stderr, re.MULTILINE) == [f"train.py:{LINE}"]
    verdict = next(h["verdict"] for h in hits_of(tmp_path / "run") if "verdict" in h)
    assert (verdict["op_type"], verdict["step"]) == ("log", 3)
    assert verdict["reached"]["loss"]
    state = tmp_path / "run" / "rank_0" / verdict["state"]
    assert (state / "parameters.safetensors").exists()
    about = json.loads((state / "state.json").read_text())
    assert about["taken_in_step"] in ([3] if flags else [3, 4])
    from safetensors.torch import load_file

    saved = load_file(str(state / "parameters.safetensors"))
    finite = all(bool(tensor.isfinite().all()) for tensor in saved.values())
    assert finite == bool(flags)  # in time only if it waits


def test_masks_and_skipped_updates_are_no_hits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    done = opscope("run", "--run-dir", "run", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert hits_of(tmp_path / "run") == []
    assert "skips the update" in done.stderr


def test_weights_are_compared_on_the_device(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULT.replace("step == 3", "False"))
    watch = "WCL abs_mean_update_ratio_gt=0; TR range_start_inclusive=-1 range_percentage_gt=0"
    words = ["run", "--run-dir", "run", "--watch", watch, "train.py"]
    done = opscope(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = hits_of(tmp_path / "run")
    ratios = [h["actual"] for h in found if h["condition"] == "WCL"]
    assert ratios and all(0 < r["abs_mean_update_ratio_gt"] < 10 for r in ratios)
    assert {h["step"] for h in found if h["condition"] == "WCL"} == set(range(1, 8))
    assert all(
        0 < h["actual"]["range_percentage_gt"] <= 100 for h in found if h["condition"] == "TR"
    )

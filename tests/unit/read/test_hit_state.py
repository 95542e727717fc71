"""The state that was saved with a hit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_run import write_run

from opscope.commands import main
from opscope.errors import OpscopeError
from opscope.read.hit_state import find_state, read_safetensors, states_in, tensors_in
from opscope.safetensors_file import save_tensors


@pytest.fixture
def rank(tmp_path: Path) -> Path:
    """A rank of a run with the states of two hits."""
    write_run(tmp_path / "run")
    rank = tmp_path / "run/rank_0"
    for step in (10, 2):
        state = rank / f"hits/step_{step}"
        state.mkdir(parents=True)
        save_tensors(state / "batch.safetensors", {"input0": torch.tensor([[1.0, 3.0]])})
        parameters = {
            "w": torch.tensor([1.5, float("nan")], dtype=torch.bfloat16),
            "tiny": torch.ones(3).to(torch.float8_e5m2),
            "mask": torch.tensor([True, False]),
        }
        save_tensors(state / "parameters.safetensors", parameters)
        facts = {"step": step, "rank": 0, "node": "Default/log-op0", "where": "train.py:1"}
        (state / "state.json").write_text(json.dumps(facts | {"left_out": ["optimizer (9 bytes)"]}))
    return rank


def test_states_by_step(rank: Path, tmp_path: Path) -> None:
    assert [path.name for path in states_in(rank)] == ["step_2", "step_10"]
    assert find_state(rank, "hits").name == "step_2"
    assert find_state(rank, "hits/step_10").name == "step_10"
    with pytest.raises(OpscopeError, match="there are hits/step_2, hits/step_10"):
        find_state(rank, "hits/step_3")
    with pytest.raises(OpscopeError, match="has no saved state"):
        find_state(tmp_path, "hits")


def test_tensors_come_back(rank: Path) -> None:
    found = {f"{part}/{tensor.name}": tensor for part, tensor in tensors_in(states_in(rank)[0])}
    assert list(found) == ["batch/input0", "parameters/w", "parameters/tiny", "parameters/mask"]
    np.testing.assert_array_equal(found["batch/input0"].array(), [[1.0, 3.0]])
    np.testing.assert_array_equal(found["parameters/w"].array(), [1.5, np.nan])
    row = found["parameters/w"].stats()
    assert row is not None and (row.max, row.nan) == (1.5, 1)
    assert found["parameters/tiny"].stats().mean == 1.0
    mask = found["parameters/mask"].stats()
    assert mask is not None and (mask.min, mask.max) == (0, 1)


def test_show(rank: Path, capsys: Any) -> None:
    run = str(rank.parent)
    assert main(["show", run, "hits"]) == 0
    printed = capsys.readouterr().out
    assert "step_2  (step 2, rank 0)" in printed
    assert "  began in     Default/log-op0" in printed
    assert "  not saved    optimizer (9 bytes)" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("batch")]
    assert line.split()[:5] == ["batch", "input0", "F32", "[1,", "2]"]
    assert main(["show", run, "hits/step_10", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["step"] == 10
    assert [t["name"] for t in data["tensors"]] == ["input0", "w", "tiny", "mask"]
    assert main(["show", run, "hits/step_11"]) == 2


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(OpscopeError, match=r"x\.safetensors cannot be read"):
        read_safetensors(tmp_path / "x.safetensors")

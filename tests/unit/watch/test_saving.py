"""The state that is saved with a hit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from opscope.events import TRAINING_GRAPH, Node, Phase, Snapshot, Stack
from opscope.judge.origin.birth import Bad, Birth
from opscope.messages import forget_said
from opscope.watch.saving import HitState

safetensors = pytest.importorskip("safetensors.torch")

NODE = Node(3, TRAINING_GRAPH, "Default/log-op0", "log", "", "", "", Phase.FORWARD, Stack(0, ()))
BIRTH = Birth(NODE, 0, 0, Bad(1, 0, 0, 1, 0))
VERDICT = {"where": "train.py:3"}


@pytest.fixture(autouse=True)
def anew() -> None:
    forget_said()


def state(folder: Path, limit: int = 1 << 20, **parts: Any) -> HitState:
    made = HitState(folder, limit)
    made.rank = 2
    made.snapshot = lambda: Snapshot(**parts)
    made.values = lambda birth: {"input.0": torch.zeros(2)}
    return made


def test_what_is_written(tmp_path: Path) -> None:
    made = state(
        tmp_path,
        batch={"input0": torch.ones(3)},
        parameters={"w": torch.eye(2)},
        facts={"taken_in_step": 7},
    )
    assert made.save(7, BIRTH, VERDICT) == "hits/step_7"
    folder = tmp_path / "rank_2" / "hits" / "step_7"
    assert {path.name for path in folder.iterdir()} == {
        "state.json", "origin.safetensors", "batch.safetensors", "parameters.safetensors"
    }  # fmt: skip
    assert json.loads((folder / "state.json").read_text()) == {
        "step": 7,
        "rank": 2,
        "node": "Default/log-op0",
        "where": "train.py:3",
        "files": {"origin": ["input.0"], "batch": ["input0"], "parameters": ["w"]},
        "left_out": [],
        "taken_in_step": 7,
    }
    assert torch.equal(safetensors.load_file(folder / "parameters.safetensors")["w"], torch.eye(2))


def test_what_does_not_fit_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = {"parameters": {"w": torch.ones(100)}, "optimizer": {"0/w/m": torch.ones(3)}}
    made = state(tmp_path, 100, **parts)
    assert made.save(0, BIRTH, VERDICT)
    about = json.loads((tmp_path / "rank_2" / "hits" / "step_0" / "state.json").read_text())
    assert about["files"].keys() == {"origin", "optimizer"}, "what is smaller still fits"
    assert about["left_out"] == ["parameters (400 bytes; 92 bytes are left of the limit)"]
    assert "not saved with the hit: parameters (400 bytes" in capfd.readouterr().err


def test_tensors_without_a_place_in_the_format(tmp_path: Path) -> None:
    odd = {"complex": torch.ones(1, dtype=torch.complex64), "meta": torch.ones(1, device="meta")}
    made = state(tmp_path, parameters={**odd, "w": torch.ones(1)})
    assert made.save(0, BIRTH, VERDICT)
    about = json.loads((tmp_path / "rank_2" / "hits" / "step_0" / "state.json").read_text())
    assert about["files"]["parameters"] == ["w"]
    assert about["left_out"] == [
        "parameters: complex (torch.complex64)",
        "parameters: meta (torch.float32)",
    ]


def test_only_the_first_hits_are_saved(tmp_path: Path) -> None:
    made = state(tmp_path)
    assert [bool(made.save(step, BIRTH, VERDICT)) for step in range(5)] == [True] * 3 + [False] * 2


def test_nothing_is_saved_without_a_run_or_room(tmp_path: Path) -> None:
    assert HitState(None).save(0, BIRTH, VERDICT) is None
    assert state(tmp_path, 0).save(0, BIRTH, VERDICT) is None
    assert [*tmp_path.iterdir()] == []


def test_a_disk_that_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank_2").write_text("in the way")
    assert state(tmp_path).save(0, BIRTH, VERDICT) is None
    assert "cannot save the state of the hit: " in capfd.readouterr().err


def test_tensors_that_refuse(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Refuses(torch.Tensor):
        def numel(self) -> int:
            raise RuntimeError("no size")

    refuses = torch.ones(1).as_subclass(Refuses)
    assert state(tmp_path, parameters={"w": refuses}).save(0, BIRTH, VERDICT) is None
    assert "cannot save the state of the hit: RuntimeError: no size" in capfd.readouterr().err

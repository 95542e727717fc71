"""Quick steps that are sound are judged several at once: nothing is missed or comes too late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opscope
from helpers.watched import train
from opscope.messages import forget_said
from opscope.watch import callbacks
from opscope.watch.ending import is_ending
from opscope.watch.held_steps import HeldSteps

SPIKE, STEPS = 130, 150


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of steps that were judged together."""
    found: list[int] = []
    take = HeldSteps.take

    def counted(self: HeldSteps) -> Any:
        steps = take(self)
        if steps:
            found.append(len(steps))
        return steps

    monkeypatch.setattr(HeldSteps, "take", counted)
    return found


def spiking(output: torch.Tensor, step: int) -> torch.Tensor:
    return output.square().mean() * (1000.0 if step == SPIKE else 1.0)


def run(folder: Path, loss_of: Any = spiking, **options: Any) -> bool:
    """Train under watch, without a function that is told of hits; returns whether it was ended."""
    forget_said()
    torch.manual_seed(0)
    try:
        with opscope.start(run_dir=folder, page=False, record=False, **options):
            train(STEPS, loss_of, nn.Linear(3, 2), rate=1e-3)
    except SystemExit as error:
        assert is_ending(error)
        return True
    return False


def hits(folder: Path) -> list[tuple[str, int, str]]:
    path = folder / "rank_0" / "hits.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [(hit["condition"], hit["step"], hit["message"]) for hit in found]


def test_steps_that_wait_have_the_hits_of_those_that_do_not(
    tmp_path: Path, waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not run(tmp_path / "together")
    assert max(waited) == 8 and sum(waited) == STEPS
    waited.clear()
    monkeypatch.setattr("opscope.watch.sink._SETTLED", STEPS)
    assert not run(tmp_path / "alone")
    assert set(waited) == {1}
    found = hits(tmp_path / "together")
    assert found == hits(tmp_path / "alone")
    assert ("LS", SPIKE) in [hit[:2] for hit in found]


def test_what_is_not_finite_ends_training_in_its_step(tmp_path: Path, waited: list[int]) -> None:
    def broken(output: torch.Tensor, step: int) -> torch.Tensor:
        return output.square().mean() * (float("nan") if step == SPIKE else 1.0)

    assert run(tmp_path / "run", broken)
    assert max(waited) == 8
    assert {step for _, step, _ in hits(tmp_path / "run")} == {SPIKE}
    assert sum(waited) <= SPIKE + 1


def test_steps_do_not_wait_where_a_hit_of_theirs_ends_training(
    tmp_path: Path, waited: list[int]
) -> None:
    assert run(tmp_path / "run", on_hit_kinds="all")
    assert set(waited) == {1} and sum(waited) == SPIKE + 1


def test_steps_do_not_wait_where_somebody_is_told(tmp_path: Path, waited: list[int]) -> None:
    told: list[Any] = []
    opscope.on_hit(told.append)
    try:
        assert not run(tmp_path / "run")
    finally:
        callbacks.remove(told.append)
    assert set(waited) == {1} and told

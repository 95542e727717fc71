"""Watching keeps nothing alive: tensors are freed when the program lets go of them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import opscope
from helpers.engines import needs_observer
from helpers.recorder import Recorder, recording
from opscope.calls import Calls
from opscope.events import Want


@pytest.mark.parametrize(
    "wanted", [Want.NOTHING, Want.OUTPUT_STATS | Want.INPUT_STATS], ids=["capture", "statistics"]
)
def test_batches_and_activations_are_freed_without_a_garbage_collection(wanted: Want) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    alive: list[weakref.ref[torch.Tensor]] = []
    gc.collect()
    gc.disable()
    try:
        with recording(Recorder(wanted)):
            for _ in range(5):
                batch = {"x": torch.randn(3, 4), "more": [torch.randn(3, 4)]}
                hidden = model(batch["x"]) + model(batch["more"][0])
                loss = hidden.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                alive += map(weakref.ref, (batch["x"], batch["more"][0], hidden, loss))
                del batch, hidden, loss
                assert [ref() for ref in alive if ref() is not None] == []
    finally:
        gc.enable()


def test_the_calls_of_old_steps_are_let_go(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = {id(each) for each in gc.get_objects() if type(each) is Calls}
    with opscope.start(run_dir=tmp_path / "run", page=False):
        for _ in range(60):
            loss = model(torch.randn(3, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        gc.collect()
        now = [each for each in gc.get_objects() if type(each) is Calls]
        kept = [each for each in now if id(each) not in before]
    assert len(kept) < 12


@needs_observer
@pytest.mark.parametrize(
    "wanted", [Want.OUTPUT_STATS | Want.INPUT_STATS, Want.INPUT_VALUES | Want.OUTPUT_VALUES]
)
def test_finalizers_of_the_program_compute_as_they_do_plainly(wanted: Want) -> None:
    """Python may collect garbage, and finalize what is of the program, while our code runs."""
    weight = nn.Parameter(torch.ones(3))
    found: set[tuple[bool, bool]] = set()

    class InCycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            found.add(((weight * 2).requires_grad, gc.isenabled()))

    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with recording(Recorder(wanted)) as seen:
            for _ in range(20):
                InCycle()
                model(torch.ones(2, 3))
                InCycle()
                seen.capture.mark_step()
    finally:
        gc.set_threshold(*before)
    assert found == {(True, True)}

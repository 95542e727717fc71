"""Watching without native code: a dispatch mode under all others, and what it tells of a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, TensorDataset

from helpers.modes import LoggingMode
from helpers.twice import Facts, watch
from opscope.capture import fallback
from opscope.messages import forget_said


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    forget_said()
    yield
    assert _get_current_dispatch_mode_stack() == []


def test_ours_is_under_the_users_modes_and_leaves_them() -> None:
    ours, first, second = LoggingMode(), LoggingMode(), LoggingMode()
    with first, second:
        fallback.push(ours)
        assert _get_current_dispatch_mode_stack() == [ours, first, second]
        fallback.remove(ours)
        assert _get_current_dispatch_mode_stack() == [first, second]
        fallback.remove(ours)
        assert _get_current_dispatch_mode_stack() == [first, second]


def train() -> list[float]:
    """Train on batches of a DataLoader, with a write to a view and an operator that fails."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(torch.arange(8.0).reshape(4, 2)), batch_size=2)
    losses = []
    for (x,) in data:
        out = model(x)
        out = out * 2
        out[:, 0].mul_(0.5)
        with pytest.raises(RuntimeError):
            torch.ones(2) + torch.ones(3)
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def facts() -> Facts:
    return watch(train, native=False)


def test_training_is_the_same(facts: Facts) -> None:
    assert facts.result == train()


def test_steps_and_losses(facts: Facts) -> None:
    assert [(step.number, step.complete) for step in facts.steps[:2]] == [(0, True), (1, True)]
    for step, loss in zip(facts.steps, facts.result, strict=False):
        ((value, name),) = step.losses
        assert value == loss
        assert name == "Default/mean-op0"


def nodes(facts: Facts, text: str) -> list[str]:
    return [node["name"] for node in facts.nodes if text in node["name"]]


def test_nodes_have_scopes_and_backward_its_forward(facts: Facts) -> None:
    assert nodes(facts, "network-Sequential/0-Linear/addmm") == [
        "Default/network-Sequential/0-Linear/addmm-op0",
        *nodes(facts, "Gradients/Default/network-Sequential/0-Linear/addmm"),
    ]
    assert nodes(facts, "Gradients/Default/network-Sequential/1-Tanh/")
    assert nodes(facts, "Default/optimizer-SGD/")
    assert nodes(facts, "Default/data/stack") == ["Default/data/stack-op0"]


def test_sources_of_inputs(facts: Facts) -> None:
    sources = facts.steps[1].sources
    linear = sources["Default/network-Sequential/0-Linear/addmm-op0"]
    assert any("0.bias" in each for each in linear)
    assert any("batch" in each or "data" in each for each in linear)
    (written,) = (s for name, s in sources.items() if name.startswith("Default/pow"))
    assert "mul_" in written[0], "what was written through a view is its source"


def test_rows_are_those_of_the_moment(facts: Facts) -> None:
    for number, loss in enumerate(facts.result):
        rows = {
            name: row
            for (step, _, name, side, *_), row in facts.rows.items()
            if (step, side) == (number, "output")
        }
        assert rows["Default/pow-op0"].mean == pytest.approx(loss)
        assert rows["Default/mul_-op0"].count == 2, "only what was written through the view"


def test_an_error_of_ours_is_told_and_the_operator_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = fallback.__file__
    code = compile("def broken(*args):\n    raise ZeroDivisionError('ours')\n", file, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    monkeypatch.setattr(fallback.Fallback, "_note_crossings", names["broken"])
    found = watch(train, native=False)
    assert found.result == train()
    told = capsys.readouterr().err
    assert told.count("internal error while watching an operator: ZeroDivisionError: ours") == 1


def test_what_a_signal_raises_reaches_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            torch.ones(2) + 1

    with monkeypatch.context() as patched:
        patched.setattr(fallback.Fallback, "_note_crossings", interrupted)
        watch(run, native=False)

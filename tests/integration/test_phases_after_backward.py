"""Between backward and the next forward: what belongs to the update, and what does not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.recorder import Recorder
from opscope.capture import hook

X, Y = torch.linspace(-1, 1, 12).reshape(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
STEPS = 3


@pytest.fixture(autouse=True, params=["native", "python"])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the native hook, and by the mode that stands in for it."""
    if request.param == "python":
        monkeypatch.setattr(hook, "load", lambda: None)


def phases(seen: Recorder, *op_types: str) -> list[set[str]]:
    """The phases that operators of these types ran in, per step."""
    found = [
        {call.node.phase.value for op_type in op_types for call in seen.of_type(op_type, step)}
        for step in range(STEPS)
    ]
    assert all(found), f"no {op_types} in some step"
    return found


def pair(model: nn.Module | None = None) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = model or nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_metric_before_the_update_is_forward(record) -> None:
    model, optimizer = pair()
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            scores = model(X)
            F.cross_entropy(scores, Y).backward()
            with torch.no_grad():
                scores.argmax(1).eq(Y).float().mean()
            optimizer.step()
    assert phases(seen, "argmax", "eq", "mean") == [{"forward"}] * STEPS


def test_preparing_the_next_micro_batch_is_forward(record) -> None:
    model, optimizer = pair()
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in X.split(3):
                with torch.no_grad():
                    prepared = (part.sinh() + torch.zeros(2)).cosh()
                model(prepared).sum().backward()
            optimizer.step()
    per_step = phases(seen, "sinh", "cosh")
    assert per_step[1:] == [{"forward"}] * (STEPS - 1)
    assert per_step[0] == {"setup", "forward"}


class Distilled(nn.Module):
    """A loss that asks a teacher, under no_grad, and a frozen backbone in front of the head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(2, 2).requires_grad_(False)
        self.teacher = nn.Linear(2, 2).requires_grad_(False)
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.backbone(x).sinh()
            target = self.teacher(x).cosh()
        return F.mse_loss(self.head(features), target)


def test_a_frozen_backbone_and_a_teacher_in_micro_batches_are_forward(record) -> None:
    model = Distilled()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in X.split(3):
                model(part).backward()
            optimizer.step()
    assert phases(seen, "sinh", "cosh", "addmm") == [{"forward"}] * STEPS


def test_a_teacher_called_after_backward_is_no_part_of_the_update(record) -> None:
    (model, optimizer), teacher = pair(), nn.Linear(2, 2).eval()
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in X.split(3):
                with torch.no_grad():
                    target = teacher(part).cosh()
                F.mse_loss(model(part), target).backward()
            optimizer.step()
    assert phases(seen, "addmm") == [{"forward", "eval"}] * STEPS
    assert phases(seen, "cosh") == [{"eval"}] * STEPS


class TrainsInside(nn.Module):
    """A module whose forward runs backward itself and goes on without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.inner(x).sum().backward()
        with torch.no_grad():
            return self.inner(x).sinh()


def test_after_a_backward_inside_a_module_is_forward(record) -> None:
    model, optimizer = pair(TrainsInside())
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(X)
            optimizer.step()
    assert phases(seen, "addmm", "sinh") == [{"forward"}] * STEPS


def test_clipping_is_optimizer(record) -> None:
    model, optimizer = pair()
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(X).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            with torch.no_grad():
                torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
            optimizer.step()
    made = ("linalg_vector_norm", "reciprocal", "clamp", "_foreach_norm", "_foreach_mul_")
    made = (*made, "_foreach_clamp_min_", "square", "pow", "sqrt")
    seen_types = {node.op_type for node in seen.nodes}
    there = [op_type for op_type in made if op_type in seen_types]
    assert {"_foreach_norm", "_foreach_mul_", "sqrt"} <= {*there}
    assert phases(seen, *there) == [{"optimizer"}] * STEPS


def test_unscaling_is_optimizer(record) -> None:
    model, optimizer = pair()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with record() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            scaler.scale(model(X).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    unscale = "_amp_foreach_non_finite_check_and_unscale_"
    assert phases(seen, unscale) == [{"optimizer"}] * STEPS


def test_updates_by_hand_are_optimizer(record) -> None:
    model = nn.Linear(2, 2)
    with record() as seen:
        for step in range(STEPS):
            model(X).sum().backward()
            for parameter in model.parameters():
                if step % 2:
                    with torch.no_grad():
                        parameter.add_(parameter.grad, alpha=-0.1)
                else:
                    parameter.data.add_(parameter.grad, alpha=-0.1)
            model.zero_grad(set_to_none=True)
    assert phases(seen, "add_") == [{"optimizer"}] * STEPS

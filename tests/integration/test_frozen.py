"""FC: a parameter is frozen only while it is, and who writes it by hand means to."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from helpers.watched import watched

STEPS = 8


def test_optimizers_that_take_turns_as_lightning_toggles_them(tmp_path: Path) -> None:
    with watched(tmp_path, save_state="none") as found:
        made, critic = nn.Linear(3, 3), nn.Linear(3, 1)
        pairs = [(each, torch.optim.Adam(each.parameters(), 0.01)) for each in (made, critic)]
        for _ in range(STEPS):
            for own, optimizer in pairs:
                for each, _ in pairs:
                    each.requires_grad_(each is own)
                optimizer.zero_grad()
                critic(made(torch.randn(4, 3))).square().mean().backward()
                optimizer.step()
    assert found.of("FC") == []


def test_a_teacher_that_the_optimizer_holds(tmp_path: Path) -> None:
    for number, late in enumerate((True, False)):
        with watched(tmp_path / str(number), save_state="none") as found:
            student, teacher = nn.Linear(3, 2), nn.Linear(3, 2).requires_grad_(False)
            both = nn.ModuleList([student, teacher])
            optimizer = torch.optim.AdamW(both.parameters(), 0.01)
            for _ in range(STEPS):
                x = torch.randn(4, 3)
                optimizer.zero_grad()
                (student(x) - teacher(x)).square().mean().backward()
                if late:
                    optimizer.step()
                with torch.no_grad():
                    pairs = zip(teacher.parameters(), student.parameters(), strict=True)
                    for slow, fast in pairs:
                        slow.mul_(0.9).add_(fast, alpha=0.1)
                if not late:
                    optimizer.step()
        assert found.of("FC") == []


def test_a_frozen_layer_that_momentum_moves_on(tmp_path: Path) -> None:
    with watched(tmp_path, save_state="none") as found:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for step in range(STEPS):
            if step == 3:
                model[0].requires_grad_(False)
            optimizer.zero_grad(set_to_none=False)
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
    assert [hit.parameter.rpartition(".")[0] for hit in found.of("FC")] == ["0"]

"""A program with more call sites than there is room for at first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from helpers import twice
from helpers.twice import watch_twice

LINES = 1200
TEXT = "def run(x):\n" + "    x = x * 1.0\n" * LINES + "    return x\n"


def many_lines() -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = run(model(torch.ones(2, 2))).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


made: dict[str, object] = {}
exec(compile(TEXT, "many_lines.py", "exec"), made)
run: Any = made["run"]


@pytest.mark.skipif(not twice.hook_is_there(), reason="the native hook is not built")
def test_each_call_is_of_its_own_site_natively_too(capsys) -> None:
    native, python = watch_twice(many_lines)
    assert native.result == python.result
    twice.assert_same_facts(native, python)
    assert len(native.nodes) > 2 * LINES
    assert native.native_share() > 0.7  # all but the first step

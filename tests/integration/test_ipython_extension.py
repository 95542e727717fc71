"""`%load_ext opscope` in a real IPython shell."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROMPTS = {"ps1", "ps2", "ps3"}
CELL = """
import torch
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = (net(torch.ones(2, 4)) * 0).log().sum()
    loss.backward()
    optimizer.step()
done = step
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    had = {name for name in PROMPTS if hasattr(sys, name)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "opscope")
    yield made
    made.user_ns.clear()  # an optimizer that lives on would be waited for in other tests
    made.reset(new_session=False, aggressive=True)
    InteractiveShell.clear_instance()
    gc.collect()
    for name in PROMPTS - had:  # or every later test would seem to run at a prompt
        if hasattr(sys, name):
            delattr(sys, name)


def test_a_cell_is_watched(shell: Any, tmp_path: Path) -> None:
    shell.run_cell_magic("opscope", "on_hit=log run-dir=one", CELL)
    assert shell.user_ns["done"] == 2
    hits = shell.run_line_magic("opscope_hits", "")
    assert "log-op0" in hits[0]["name"]
    assert (tmp_path / "one" / "rank_0").is_dir()


def test_options_that_are_wrong_are_said(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("opscope", "evry=2", "ran = 1")
    assert "evry" in capsys.readouterr().err
    shell.run_cell_magic("opscope", "steps=x", "ran = 1")
    assert "steps" in capsys.readouterr().err
    assert "ran" not in shell.user_ns

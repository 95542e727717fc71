"""A session in a notebook says what it left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import opscope


def test_a_directory_that_is_not_there_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opscope.start(page=False, record=False) as session:
        assert repr(session).startswith("<opscope session, running, run ")
    assert repr(session) == "<opscope session, stopped, nothing was recorded>"
    with opscope.start(page=False, record=False) as session:
        torch.ones(2).sum()
    assert repr(session) == f"<opscope session, stopped, run {session.run_directory}>"

"""What ends training, in scripts and at prompts."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from opscope.watch.ending import TrainingStopped, end_training, is_ending


def test_training_ends_like_a_program_that_exits() -> None:
    with pytest.raises(SystemExit) as caught:
        end_training()
    assert type(caught.value) is SystemExit, "threads print a traceback of any subclass"
    assert caught.value.code == 3
    assert is_ending(caught.value) and not is_ending(SystemExit(3)) and not is_ending(None)


def test_a_prompt_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[BaseException] = []
    hook: Callable[..., None] = lambda kind, error, trace: others.append(error)  # noqa: E731
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "excepthook", hook)
    for _ in range(2):
        with pytest.raises(TrainingStopped) as caught:
            end_training()
    assert not isinstance(caught.value, Exception), "`except Exception` lets it through"
    assert is_ending(caught.value)
    sys.excepthook(TrainingStopped, caught.value, None)
    sys.excepthook(ValueError, ValueError("x"), None)
    assert capsys.readouterr().err == f"opscope: {caught.value}\n"
    assert len(others) == 1

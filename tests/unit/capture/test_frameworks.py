"""Frameworks are there or it is said how to install them; a session names none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opscope import session
from opscope.capture import frameworks
from opscope.capture.frameworks import FRAMEWORKS, Framework, installed
from opscope.capture.torch_capture import TorchCapture
from opscope.errors import OpscopeError
from opscope.pipeline import Pipeline
from opscope.stats.engine import Engine


def nothing(*args: Any) -> Any:
    raise AssertionError("nothing is captured")


def framework(module: str) -> Framework:
    return Framework(module, "NoSuch", "pip install nosuch", nothing, nothing)


@pytest.mark.parametrize("module", ["no_such_framework", "no_such_framework.part"])
def test_without_any_framework(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework(module),))
    with pytest.raises(OpscopeError, match=r"NoSuch is not installed .*: pip install nosuch"):
        installed()


def test_one_that_is_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    others = framework("no_such_framework"), framework("wave")
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (*others, *FRAMEWORKS))
    assert [found.module for found in installed()] == ["wave", "torch"]


def test_the_capture_of_torch() -> None:
    (torch,) = installed()
    capture = torch.capture(Pipeline([], Engine()), lambda: 0, True)
    assert isinstance(capture, TorchCapture)
    assert not capture.opened


def test_a_session_names_no_framework() -> None:
    assert "torch" not in Path(session.__file__).read_text().lower()

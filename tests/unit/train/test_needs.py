from __future__ import annotations

import sys

import pytest

from opscope.errors import OpscopeError
from opscope.train import Accuracy, SummaryCollector
from opscope.train.scalars import open_target


def test_what_is_missing_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "torchmetrics":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(OpscopeError, match=r"pip install 'opscope\[train\]'"):
        Accuracy().update([[0.1, 0.9]], [1])


@pytest.mark.parametrize(
    ("module", "to", "command"),
    [
        ("torch.utils.tensorboard", "tensorboard", r"pip install 'opscope\[train\]'"),
        ("wandb", "wandb", "pip install wandb"),
        ("mlflow", "mlflow", "pip install mlflow"),
    ],
)
def test_tools_that_are_missing(
    module: str, to: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OpscopeError, match=f"needs {to}.*{command}"):
        open_target(to)


def test_summaries_need_tensorboard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(OpscopeError, match="SummaryCollector needs tensorboard"):
        SummaryCollector("x")


def test_an_unknown_tool() -> None:
    with pytest.raises(ValueError, match="must be one of tensorboard, wandb, mlflow"):
        open_target("excel")

"""The examples of MindSpore's guide on custom debugging, each as it stands there.

Changed are imports, Module and forward, and how a tensor is made; what is printed is compared.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import opscope
from helpers.guide_callbacks import SaveCallback, StopAtTime
from opscope import context, train
from opscope.settings.context import reset_context
from opscope.train import (
    Accuracy,
    Callback,
    LossMonitor,
    Model,
    ModelCheckpoint,
    SummaryCollector,
    load_checkpoint,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return tmp_path


class Problem:
    """A network, a loss, an optimizer and data, under the names that the guide takes as given."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        self.net_loss = nn.CrossEntropyLoss()
        self.net_opt = torch.optim.SGD(self.net.parameters(), lr=0.5)
        x = torch.randn(64, 4)
        self.dataset = [(part, part[:, :3].argmax(1)) for part in x.split(8)]


def test_callbacks_that_are_provided(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = Problem()
    model = Model(network=given.net, loss_fn=given.net_loss, optimizer=given.net_opt)
    epoch, dataset = 2, given.dataset

    ckpt_cb = ModelCheckpoint()
    loss_cb = LossMonitor()
    summary_cb = SummaryCollector(summary_dir="./summary_dir")
    model.train(epoch, dataset, callbacks=[ckpt_cb, loss_cb, summary_cb])

    losses = re.findall(r"epoch: (\d) step: (\d), loss is ([\d.]+)", capsys.readouterr().out)
    assert [(int(e), int(s)) for e, s, _ in losses] == [(e, s) for e in (1, 2) for s in range(1, 9)]
    assert list(folder.glob("**/*.ckpt")) and list(folder.glob("summary_dir/*tfevents*"))


def test_stop_at_time(capsys: pytest.CaptureFixture[str]) -> None:
    given = Problem()
    model = Model(network=given.net, loss_fn=given.net_loss, optimizer=given.net_opt)
    model.train(1_000_000, given.dataset, callbacks=[StopAtTime(run_time=0.002)])
    told = capsys.readouterr().out
    assert re.fullmatch(r"epoch:  \d+  step:  \d+  loss:  tensor\([\d.e-]+.*\)\n", told), told


def test_the_best_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = Problem()
    model = Model(given.net, given.net_loss, given.net_opt, metrics={"accuracy"})
    saved = SaveCallback(model, given.dataset)
    model.train(2, given.dataset, callbacks=saved)
    told = re.findall(
        r"Save the maximum accuracy checkpoint,the accuracy is ([\d.]+)\n", capsys.readouterr().out
    )
    accuracies = [float(each) for each in told]
    assert accuracies == sorted(set(accuracies)) and accuracies[-1] == saved.acc > 0.5
    assert {path.stem for path in folder.glob("*.ckpt")} == set(told)
    found = load_checkpoint(f"{told[-1]}.ckpt")
    assert {"0.weight", "2.bias"} <= set(found)


def test_metrics_of_a_model() -> None:
    given = Problem()
    metrics = {
        "accuracy": train.Accuracy(),
        "loss": train.Loss(),
        "precision": train.Precision(),
        "recall": train.Recall(),
        "f1_score": train.F1(),
    }
    model = Model(
        network=given.net, loss_fn=given.net_loss, optimizer=given.net_opt, metrics=metrics
    )
    result = model.eval(given.dataset)
    assert list(result) == list(metrics)
    assert 0 <= result["accuracy"] <= 1 and result["loss"] > 0
    assert all(len(result[name]) == 3 for name in ("precision", "recall", "f1_score"))


def test_a_callback_in_an_evaluation() -> None:
    seen: list[Any] = []

    class Watching(Callback):
        def begin(self, run_context):
            seen.append("begin")

        def step_end(self, run_context):
            seen.append(run_context.original_args().cur_step_num)

    given = Problem()
    model = Model(given.net, given.net_loss, metrics={"accuracy"})
    model.eval(given.dataset, callbacks=[Watching()])
    assert seen == ["begin", *range(1, 9)]


def test_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]))
    y = torch.tensor(np.array([1, 0, 1]))
    metric = Accuracy()
    metric.clear()
    metric.update(x, y)
    accuracy = metric.eval()
    print("Accuracy is ", accuracy)
    word, number = capsys.readouterr().out.rsplit(maxsplit=1)
    assert word == "Accuracy is" and f"{float(number):.4f}" == "0.6667"


PRINTED = """print Tensor x and Tensor y:
Tensor(shape=[2, 1], dtype=Int32, value=
[[1]
 [1]])
Tensor(shape=[2, 2], dtype=Int32, value=
[[1 1]
 [1 1]])
"""


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    context.set_context(mode=context.GRAPH_MODE)

    class PrintDemo(nn.Module):
        def __init__(self):
            super().__init__()
            self.print = opscope.Print()

        def forward(self, x, y):
            self.print("print Tensor x and Tensor y:", x, y)
            return x

    x = torch.tensor(np.ones([2, 1]).astype(np.int32))
    y = torch.tensor(np.ones([2, 2]).astype(np.int32))
    net = PrintDemo()
    output = net(x, y)
    assert capfd.readouterr().out == PRINTED
    assert output is x
    reset_context()


@pytest.mark.parametrize(
    "config",
    [
        {"rdr": {"enable": False, "mode": 1, "path": "/path/to/rdr/dir"}},
        {"sys": {"mem_reuse": True}},
    ],
)
def test_config_files(config: dict[str, Any]) -> None:
    Path("mindspore_config.json").write_text(json.dumps(config))
    try:
        context.set_context(env_config_path="./mindspore_config.json")
    finally:
        reset_context()

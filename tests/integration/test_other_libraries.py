"""The adapters in trainings by the real libraries; run by `make test-long`."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import opscope
from opscope.session import current_session
from opscope.train import ExportScalars, Model

pytestmark = pytest.mark.long


class Net(nn.Module):
    """Good, or with the logarithm of 0 in it."""

    def __init__(self, bad: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 3)
        self.bad = bad

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        out = self.fc(x)
        if self.bad:
            out = (out * 0).log()
        if labels is None:
            return out
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


def dataset() -> TensorDataset:
    x = torch.randn(24, 4, generator=torch.Generator().manual_seed(5))
    return TensorDataset(x, x[:, :3].argmax(1))


def scalars(run: Path) -> list[dict[str, Any]]:
    lines = (run / "rank_0/scalars.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def is_watching() -> bool:
    session = current_session()
    return session is not None and session.running


# ------------------------------------------------------------------ Transformers


def hugging_face(tmp_path: Path, net: nn.Module, callbacks: list[Any]) -> Any:
    transformers = pytest.importorskip("transformers")
    rows = [{"x": x, "labels": y} for x, y in dataset()]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "hf"),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
    )
    return transformers.Trainer(net, arguments, train_dataset=rows, callbacks=callbacks)


def test_transformers(tmp_path: Path) -> None:
    plain = Net()
    hugging_face(tmp_path, plain, []).train()
    from opscope.train.adapters.transformers import OpscopeCallback

    net, callback = Net(), OpscopeCallback(run_dir=tmp_path / "run")
    hugging_face(tmp_path, net, [callback]).train()
    assert torch.equal(net.fc.weight, plain.fc.weight)
    assert not is_watching()
    run = opscope.open(tmp_path / "run")
    assert run.steps_of(0)[:6] == list(range(6))
    assert any("fc-Linear" in node.name for node in run.select_nodes())
    assert callback.hits == []
    logged = [line for line in scalars(tmp_path / "run") if "loss" in line["values"]]
    assert [line["step"] for line in logged] == [1, 2, 3, 4, 5, 6]


def test_transformers_with_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from opscope.train.adapters.transformers import OpscopeCallback

    callback = OpscopeCallback(run_dir=tmp_path / "run", on_hit="log")
    hugging_face(tmp_path, Net(bad=True), [callback]).train()
    assert "log-op0" in callback.hits[0].about


# ------------------------------------------------------------------ Lightning


def lightning_module(bad: bool = False) -> Any:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(bad)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def lightning_fit(tmp_path: Path, module: Any, callbacks: list[Any]) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(tmp_path),
        callbacks=callbacks,
    )
    trainer.fit(module, DataLoader(dataset(), batch_size=8))


def test_lightning(tmp_path: Path) -> None:
    plain = lightning_module()
    lightning_fit(tmp_path, plain, [])
    expected = plain.net.fc.weight.detach().clone()
    del plain
    gc.collect()  # with its optimizer, which steps would be waiting for
    from opscope.train.adapters.lightning import OpscopeCallback

    module, callback = lightning_module(), OpscopeCallback(run_dir=tmp_path / "run")
    lightning_fit(tmp_path, module, [callback])
    assert torch.equal(module.net.fc.weight, expected)
    assert not is_watching()
    assert opscope.open(tmp_path / "run").steps_of(0)[:6] == list(range(6))
    assert len(scalars(tmp_path / "run")) == 2
    assert "train_loss" in scalars(tmp_path / "run")[0]["values"]


def test_lightning_with_a_fault_and_an_error(tmp_path: Path) -> None:
    module = lightning_module(bad=True)
    from opscope.train.adapters.lightning import OpscopeCallback

    callback = OpscopeCallback(run_dir=tmp_path / "run", on_hit="log")
    lightning_fit(tmp_path, module, [callback])
    assert any("log-op0" in hit.about for hit in callback.hits)
    module = lightning_module()
    module.training_step = lambda batch, batch_idx: 1 / 0
    callback = OpscopeCallback(run_dir=tmp_path / "second")
    with pytest.raises(ZeroDivisionError):
        lightning_fit(tmp_path, module, [callback])
    assert not is_watching()


# ------------------------------------------------------------------ Accelerate


def accelerated(tracker: Any = None) -> Net:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("mine", config={"lr": 0.1, "name": "x"})
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(
        net, optimizer, DataLoader(dataset(), batch_size=8)
    )
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"loss": loss.item()}, step=step)
    accelerator.end_training()
    return net


def test_accelerate(tmp_path: Path) -> None:
    plain = accelerated()
    from opscope.train.adapters.accelerate import OpscopeTracker

    tracker = OpscopeTracker(run_dir=tmp_path / "run")
    assert tracker.tracker is current_session()
    watched = accelerated(tracker)
    assert torch.equal(watched.fc.weight, plain.fc.weight)
    assert not is_watching()
    assert opscope.open(tmp_path / "run").steps_of(0)[:3] == [0, 1, 2]
    kept = scalars(tmp_path / "run")
    assert kept[0] == {"step": None, "values": {"lr": 0.1, "name": "x"}}
    assert [line["step"] for line in kept[1:]] == [0, 1, 2]


# ------------------------------------------------------------------ W&B and MLflow


def train_with(callback: Any) -> list[float]:
    net = Net()
    made = Model(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), ["loss"])
    data = list(DataLoader(dataset(), batch_size=8))
    losses: list[float] = []
    from opscope.train import LambdaCallback

    look = LambdaCallback(
        on_train_step_end=lambda c: losses.append(float(c.original_args().net_outputs))
    )
    made.fit(1, data, data, callbacks=[callback, look])
    return losses


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # databases need more packages
    mlflow.set_tracking_uri(f"file://{tmp_path}/mlruns")
    mlflow.set_experiment("mine")
    losses = train_with(ExportScalars("mlflow", run_name="one"))
    assert mlflow.active_run() is None
    client = mlflow.MlflowClient()
    (experiment,) = [e for e in client.search_experiments() if e.name == "mine"]
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [metric.value for metric in history] == pytest.approx(losses)
    assert run.data.metrics["eval/loss"] > 0


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    losses = train_with(ExportScalars("wandb", project="mine", dir=str(tmp_path)))
    assert wandb.run is None
    (file,) = (tmp_path / "wandb").rglob("run-*.wandb")
    deadline = time.monotonic() + 30  # its service writes the file when it gets to it
    while b"eval/loss" not in file.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.2)
    content = file.read_bytes()
    assert b"eval/loss" in content
    assert all(f"{loss:.6f}"[:7].encode() in content for loss in losses)

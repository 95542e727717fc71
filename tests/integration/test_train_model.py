"""Model: hooks, arguments, datasets, evaluation in between, precision. Real trainings."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import opscope
from helpers.guide_callbacks import SaveCallback, StopAtTime
from opscope.messages import forget_said
from opscope.train import (
    F1,
    Accuracy,
    Callback,
    LambdaCallback,
    Loss,
    LossMonitor,
    Metric,
    Model,
    ModelCheckpoint,
    Precision,
    Recall,
    RunContext,
    SummaryCollector,
    load_checkpoint,
)

PLAIN = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


class Net(nn.Module):
    """Learns which of three inputs is the largest; has all that randomness and modes touch."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def data(count: int = 24) -> TensorDataset:
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(5))
    return TensorDataset(x, x[:, :3].argmax(1))


def batches(count: int = 24, size: int = 8) -> list[list[torch.Tensor]]:
    return list(DataLoader(data(count), batch_size=size))


def model(dropout: float = 0.2, **more: Any) -> Model:
    torch.manual_seed(0)
    net = Net(dropout)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    given = {"metrics": {"accuracy": Accuracy(), "loss": Loss()}} | more
    return Model(net, nn.CrossEntropyLoss(), optimizer, **given)


def weights(made: Model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in made.network.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


class Recorder(Callback):
    """Notes which plain hooks are called, and in which mode."""

    def __init__(self, name: str = "", notes: list[str] | None = None) -> None:
        self.name = name
        self.notes = [] if notes is None else notes

    def __getattribute__(self, hook: str) -> Any:
        if hook not in PLAIN:
            return super().__getattribute__(hook)
        return lambda context: self.notes.append(
            f"{self.name}{context.original_args().mode} {hook}"
        )


# ------------------------------------------------------------------ the guide's examples


def test_the_guides_callbacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ckpt_cb = ModelCheckpoint(directory=str(tmp_path))
    loss_cb = LossMonitor()
    summary_cb = SummaryCollector(summary_dir=str(tmp_path / "summary_dir"))
    epoch, dataset = 2, batches()
    model().train(epoch, dataset, callbacks=[ckpt_cb, loss_cb, summary_cb])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[3].startswith("epoch: 2 step: 1, loss is ")
    assert len(list((tmp_path / "summary_dir").iterdir())) == 1
    assert sorted(file.name for file in tmp_path.glob("CKP-*"))[-1] == "CKP-2_3.ckpt"


def test_the_guides_stop_at_time(capsys: pytest.CaptureFixture[str]) -> None:
    noted = Recorder()
    model().train(50, batches(), callbacks=[StopAtTime(-1), noted])
    assert capsys.readouterr().out.startswith("epoch:  1  step:  1  loss:  tensor(")
    assert noted.notes == [f"train {hook}" for hook in PLAIN]


def test_the_guides_best_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = model()
    best = SaveCallback(made, batches())
    made.train(4, batches(), callbacks=best)
    assert best.acc > 0.5
    assert f"Save the maximum accuracy checkpoint,the accuracy is {best.acc}" in (
        capsys.readouterr().out
    )
    other = model()
    load_checkpoint(f"{best.acc}.ckpt", other.network, strict_load=True)
    assert other.eval(batches())["accuracy"] == best.acc


def test_the_guides_metrics() -> None:
    net = Net()
    net_loss, net_opt = nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters())
    ds_eval = batches()
    metrics = {
        "accuracy": Accuracy(),
        "loss": Loss(),
        "precision": Precision(),
        "recall": Recall(),
        "f1_score": F1(),
    }
    made = Model(network=net, loss_fn=net_loss, optimizer=net_opt, metrics=metrics)
    result = made.eval(ds_eval)
    assert list(result) == list(metrics)
    assert [np.shape(value) for value in result.values()] == [(), (), (3,), (3,), (3,)]
    x, y = data().tensors
    with torch.no_grad():
        right = (net.eval()(x).argmax(1) == y).double().mean()
    assert result["accuracy"] == right


# ------------------------------------------------------------------ hooks and arguments


def test_hooks_in_training_and_evaluation_in_the_order_given() -> None:
    notes: list[str] = []
    made = model()
    made.fit(2, batches(16), batches(8), callbacks=[Recorder("a ", notes), Recorder("b ", notes)])
    evaluation = [f"eval {hook}" for hook in PLAIN]
    steps = ["train step_begin", "train step_end"] * 2
    epoch = ["train epoch_begin", *steps, *evaluation, "train epoch_end"]
    expected = ["train begin", *epoch, *epoch, "train end"]
    assert notes == [f"{name} {note}" for note in expected for name in "ab"]
    notes.clear()
    made.eval(batches(8), callbacks=[Recorder("", notes)])
    assert notes == evaluation


def test_the_long_form_of_a_hook_is_called_in_place_of_the_plain_one() -> None:
    class Mixed(Callback):
        notes: list[str] = []

        def begin(self, run_context: RunContext) -> None:
            self.notes.append("begin")

        def on_train_begin(self, run_context: RunContext) -> None:
            self.notes.append("on_train_begin")

        def step_end(self, run_context: RunContext) -> None:
            self.notes.append(f"step_end {run_context.original_args().mode}")

    made, mixed = model(), Mixed()
    made.train(1, batches(8), callbacks=mixed)
    made.eval(batches(8), callbacks=mixed)
    assert mixed.notes == ["on_train_begin", "step_end train", "begin", "step_end eval"]


def test_everything_the_guide_lists_can_be_asked_for() -> None:
    seen: list[dict[str, Any]] = []

    class Look(Callback):
        def on_train_step_end(self, run_context: RunContext) -> None:
            seen.append(dict(run_context.original_args()))

    made, dataset, look = model(), batches(), Look()
    made.train(2, dataset, callbacks=[look])
    last = seen[-1]
    assert last["loss_fn"] is made.loss_fn
    assert last["optimizer"] is made.optimizer
    assert last["train_dataset"] is dataset
    assert last["train_network"] is made.network
    assert last["list_callback"] == [look]
    assert last["parallel_mode"] == "stand_alone"
    assert (last["epoch_num"], last["batch_num"], last["cur_epoch_num"]) == (2, 3, 2)
    assert [each["cur_step_num"] for each in seen] == [1, 2, 3, 4, 5, 6]
    assert isinstance(last["net_outputs"], torch.Tensor)
    assert last["net_outputs"].dim() == 0
    assert not last["net_outputs"].requires_grad


def test_an_exception_of_a_callback_says_whose_it_is() -> None:
    class Broken(Callback):
        def step_end(self, run_context: RunContext) -> None:
            if run_context.original_args().cur_step_num == 5:
                raise KeyError("boom")

    with pytest.raises(KeyError, match="boom") as caught:
        model().train(2, batches(), callbacks=[Recorder(), Broken()])
    (note,) = caught.value.__notes__
    assert note == "raised by the callback Broken in step_end, at epoch 2, step 5 of train"


def test_what_is_no_callback() -> None:
    with pytest.raises(TypeError, match=r"must be opscope\.train\.Callback objects, not type"):
        model().train(1, batches(), callbacks=[LossMonitor])  # type: ignore[list-item]


def test_sinking_is_accepted_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    forget_said()
    made = model()
    made.train(1, batches(8), dataset_sink_mode=True)
    made.eval(batches(8), dataset_sink_mode=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("opscope: dataset_sink_mode has no effect")


# ------------------------------------------------------------------ evaluation in between


class Evaluates(Callback):
    def __init__(self, made: Model) -> None:
        self.made = made
        self.results: list[float] = []

    def step_end(self, run_context: RunContext) -> None:
        if run_context.original_args().mode == "train":
            result = self.made.eval(DataLoader(data(), batch_size=5, shuffle=True))
            self.results.append(result["accuracy"])


def test_evaluating_after_each_step_changes_nothing() -> None:
    def train(*, evaluates: bool) -> tuple[dict[str, torch.Tensor], list[Any]]:
        made = model()
        made.network.layers[1].eval()  # type: ignore[index]
        callbacks = [Evaluates(made)] if evaluates else []
        random.seed(1)
        np.random.seed(1)
        made.train(3, DataLoader(data(), batch_size=8, shuffle=True), callbacks=callbacks)
        if evaluates:
            assert len(callbacks[0].results) == 9
            assert made.network.training
        return weights(made), [random.random(), np.random.rand(), torch.rand(1).item()]

    plain, evaluated = train(evaluates=False), train(evaluates=True)
    assert same(plain[0], evaluated[0])
    assert plain[1] == evaluated[1]


def test_modules_keep_the_mode_they_had() -> None:
    made = model()
    made.network.layers[1].eval()  # type: ignore[index]
    before = [module.training for module in made.network.modules()]
    made.eval(batches())
    made.predict(torch.randn(2, 4))
    assert [module.training for module in made.network.modules()] == before


def test_an_evaluation_is_no_step_of_training(tmp_path: Path) -> None:
    made = model()
    with opscope.start(run_dir=tmp_path / "run", watch="none", include="eval"):
        made.train(2, batches(), callbacks=[Evaluates(made)])
    run = opscope.open(tmp_path / "run")
    assert run.steps_of(0)[:6] == [0, 1, 2, 3, 4, 5]
    losses = [len(record.losses) for record in run.recording.rank(0).steps][:6]
    assert losses == [1] * 6


# ------------------------------------------------------------------ data, loss, precision


def test_it_learns_and_predicts() -> None:
    made = model()
    made.train(60, batches())
    result = made.eval(batches())
    assert result["accuracy"] > 0.9
    x, y = data().tensors
    assert (made.predict(x).argmax(1) == y).double().mean() == result["accuracy"]


def test_the_loop_is_the_loop_people_write() -> None:
    made = model(dropout=0)
    made.train(2, batches())
    torch.manual_seed(0)
    net = Net(dropout=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        for x, y in batches():
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    assert same(weights(made), net.state_dict())


@pytest.mark.parametrize("kind", ["loader", "dataset", "list", "generator class"])
def test_kinds_of_datasets(kind: str) -> None:
    class Again:
        def __iter__(self) -> Iterator[Any]:
            return iter(batches())

    dataset = {
        "loader": DataLoader(data(), batch_size=8),
        "dataset": data(),
        "list": batches(),
        "generator class": Again(),
    }[kind]
    made = model(dropout=0, batch_size=8)
    noted = Recorder()
    made.train(2, dataset, callbacks=noted)
    assert noted.notes.count("train step_end") == 6
    expected = model(dropout=0)
    expected.train(2, batches())
    assert same(weights(made), weights(expected))


def test_a_network_that_returns_its_loss() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(x), y)

    net = WithLoss()
    made = Model(net, optimizer=torch.optim.SGD(net.parameters(), 0.5), metrics=["loss"])
    before = made.eval(batches())["loss"]
    made.train(5, batches())
    assert made.eval(batches())["loss"] < before


@pytest.mark.parametrize("amp", ["bfloat16", "float16", torch.bfloat16, True])
def test_mixed_precision(amp: Any) -> None:
    made = model(amp=amp)
    seen: list[torch.dtype] = []
    made.network.layers[0].register_forward_hook(  # type: ignore[index]
        lambda module, inputs, output: seen.append(output.dtype)
    )
    made.train(3, batches())
    assert set(seen) == {torch.float16 if amp == "float16" else torch.bfloat16}
    assert all(p.dtype == torch.float32 for p in made.network.parameters())
    assert np.isfinite(made.eval(batches())["loss"])


def test_a_metric_of_ones_own() -> None:
    class Largest(Metric):
        def clear(self) -> None:
            self.value = -1.0

        def update(self, *inputs: Any) -> None:
            output, _ = inputs
            self.value = max(self.value, float(output.max()))

        def eval(self) -> float:
            return self.value

    made = model(metrics={"largest": Largest()})
    x, _ = data().tensors
    assert made.eval(batches())["largest"] == float(made.predict(x).max())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Model(3), TypeError, "network must be a torch.nn.Module"),  # type: ignore[arg-type]
        (lambda: Model(Net()).train(1, []), ValueError, "training needs an optimizer"),
        (lambda: model().train(0, batches()), ValueError, "epoch = 0"),
        (lambda: model().train(1, []), ValueError, "no batch to train with"),
        (lambda: model().eval([]), ValueError, "no batch to evaluate"),
        (lambda: model(metrics=None).eval(batches()), ValueError, "evaluation needs metrics"),
        (lambda: model(amp="int8"), ValueError, "amp = 'int8'"),
        (lambda: model().train(2, iter(batches())), TypeError, "only once"),
        (lambda: model(metrics={"accuracy": 3}), TypeError, "must be a Metric, not int"),
    ],
)
def test_mistakes_are_said(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_going_on_from_an_epoch() -> None:
    part = model()
    seen: list[tuple[int, int]] = []

    class Look(Callback):
        def on_train_step_end(self, run_context: RunContext) -> None:
            arguments = run_context.original_args()
            seen.append((arguments.cur_epoch_num, arguments.cur_step_num))

    part.train(2, batches())
    part.train(4, batches(), callbacks=Look(), initial_epoch=2)
    assert seen == [(3, 7), (3, 8), (3, 9), (4, 10), (4, 11), (4, 12)]


def test_a_dump_of_a_training_by_a_model(tmp_path: Path) -> None:
    config = {"path": str(tmp_path / "dump"), "net_name": "Net", "iteration": "1"}
    config |= {"dump_mode": 0, "saved_data": "statistic"}
    (tmp_path / "dump.json").write_text(json.dumps({"common_dump_settings": config}))
    with opscope.start(dump=tmp_path / "dump.json"):
        model().train(1, batches())
    assert (tmp_path / "dump/rank_0/Net/0/1/statistic.csv").exists()


def test_what_the_kit_computes_for_itself_is_not_seen(tmp_path: Path) -> None:
    made, ready = model(), batches()
    callbacks = [
        LossMonitor(),
        LambdaCallback(on_train_step_end=lambda context: made.eval(ready)),
        ModelCheckpoint(directory=str(tmp_path)),
        SummaryCollector(str(tmp_path / "summary"), 1),
    ]
    with opscope.start(run_dir=tmp_path / "run", watch="none"):
        made.fit(2, ready, ready, callbacks=callbacks)
    nodes = opscope.open(tmp_path / "run").select_nodes()
    ours = [node.name for node in nodes if not node.name.startswith("Gradients/")]
    assert [n for n in ours if not n.startswith(("Default/network-", "Default/optimizer-"))] == []
    training = [node.name for node in nodes if node.graph == 0 and "CrossEntropy" in node.name]
    assert len(training) == 4  # two of forward and two of backward, none of an evaluation

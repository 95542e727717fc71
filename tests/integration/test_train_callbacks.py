"""The ready-made callbacks in real trainings."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opscope
from helpers.forked import forked_opscope as opscope_program
from helpers.program import clean_environment, python
from opscope.messages import forget_said
from opscope.train import (
    Callback,
    CheckpointConfig,
    EarlyStopping,
    ExportScalars,
    History,
    LambdaCallback,
    LearningRateScheduler,
    LossMonitor,
    LossNotFiniteError,
    Model,
    ModelCheckpoint,
    ReduceLROnPlateau,
    RunContext,
    SaveCallback,
    StopAtTime,
    SummaryCollector,
    TimeMonitor,
    Watch,
    export_run,
    load_checkpoint,
)


def batches(count: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x = torch.randn(count, 8, 4, generator=torch.Generator().manual_seed(5))
    return [(part, part[:, :3].argmax(1)) for part in x]


def model(lr: float = 0.1, **more: Any) -> Model:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    return Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy", "loss"], **more)


def rate(made: Model) -> float:
    assert made.optimizer is not None
    return float(made.optimizer.param_groups[0]["lr"])


# ------------------------------------------------------------------ what is printed


def test_the_loss_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    model().fit(2, batches(), batches(1), callbacks=LossMonitor(2))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0] for line in lines] == [
        "epoch: 1 step: 2",
        "Eval result: epoch 1",
        "epoch: 2 step: 1",
        "epoch: 2 step: 3",
        "Eval result: epoch 2",
    ]
    assert re.fullmatch(r"epoch: 1 step: 2, loss is \d\.\d+", lines[0])


@pytest.mark.parametrize(("bad", "shown"), [(math.nan, "NaN"), (math.inf, "Inf")])
def test_a_loss_that_is_no_number_ends_training(bad: float, shown: str) -> None:
    made, done = model(), History()
    factors = iter([1.0, bad])
    made.loss_fn = lambda out, label: out.abs().sum() * next(factors)
    with pytest.raises(LossNotFiniteError, match=f"epoch: 1 step: 2, loss is {shown}") as caught:
        made.train(2, batches(), callbacks=[done, LossMonitor(0)])
    assert isinstance(caught.value, ValueError)
    assert done.epoch == {"epoch": []}
    with pytest.raises(ValueError, match="per_print_times = -1"):
        LossMonitor(-1)


def test_times_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    class Slow(Callback):
        def on_eval_begin(self, run_context: RunContext) -> None:
            time.sleep(0.3)

    made = model()
    made.fit(1, batches(), batches(1), callbacks=[TimeMonitor(data_time=True), Slow()])
    evaluation, training = capsys.readouterr().out.splitlines()
    pattern = r"(\w+) epoch time: ([\d.]+) ms, per step time: ([\d.]+) ms, waiting .* per step"
    train, ev = re.fullmatch(pattern, training), re.fullmatch(pattern, evaluation)
    assert train is not None
    assert ev is not None
    assert (train[1], ev[1]) == ("Train", "Eval")
    assert float(train[2]) == pytest.approx(3 * float(train[3]), abs=0.01)
    made.train(1, batches(), callbacks=TimeMonitor())
    assert "waiting" not in capsys.readouterr().out


# ------------------------------------------------------------------ ending early, learning rates


def test_time_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    done = History()
    model().train(1000, batches(), callbacks=[StopAtTime(0.2 / 60), done])
    assert 1 <= len(done.epoch["epoch"]) < 1000
    assert re.match(r"epoch: \d+ step: \d+ loss: \d", capsys.readouterr().out)


def test_early_stopping(capsys: pytest.CaptureFixture[str]) -> None:
    made, done = model(lr=0.0), History()
    stopping = EarlyStopping(patience=2, verbose=True)
    made.fit(9, batches(), batches(), callbacks=[stopping, done])
    assert done.epoch["epoch"] == [1, 2, 3]
    assert stopping.stopped_epoch == 3
    assert capsys.readouterr().out == "Epoch 00003: early stopping\n"
    made.fit(2, batches(), batches(), callbacks=EarlyStopping("accuracy", patience=5))
    with pytest.raises(ValueError, match="mode = 'up'"):
        EarlyStopping(mode="up")


def test_the_best_weights_come_back() -> None:
    made = model(lr=0.2)
    seen: list[tuple[float, torch.Tensor]] = []

    class Spoil(Callback):
        def on_train_epoch_end(self, run_context: RunContext) -> None:
            arguments = run_context.original_args()
            value = arguments.eval_results["loss"]
            seen.append((value, made.network[0].weight.detach().clone()))  # type: ignore[index]
            if arguments.cur_epoch_num == 3:
                arguments.optimizer.param_groups[0]["lr"] = 50.0

    stopping = EarlyStopping(patience=2, restore_best_weights=True)
    made.fit(20, batches(), batches(), callbacks=[Spoil(), stopping])
    assert len(seen) == 5
    best = min(seen, key=lambda pair: pair[0])[1]
    assert torch.equal(made.network[0].weight, best)  # type: ignore[index]


def test_what_nobody_evaluates_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    forget_said()
    model().train(2, batches(), callbacks=EarlyStopping())
    assert "nothing evaluates eval_loss; Model.fit does" in capsys.readouterr().err
    model().fit(2, batches(), batches(), callbacks=EarlyStopping("eval_f1"))
    assert "there is no eval_f1 to watch, only accuracy, loss" in capsys.readouterr().err


def test_the_rate_falls_on_a_plateau(capsys: pytest.CaptureFixture[str]) -> None:
    made = model()
    made.loss_fn = lambda out, label: out.sum() * 0
    reducing = ReduceLROnPlateau(factor=0.5, patience=2, cooldown=1, min_lr=0.03, verbose=True)
    made.fit(9, batches(), batches(), callbacks=reducing)
    assert rate(made) == pytest.approx(0.03)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Epoch 00003: learning rate 0.1 is now 0.05"
    assert len(said) == 2


def test_the_rate_is_what_a_function_says() -> None:
    made = model()
    seen: list[float] = []
    schedule = LearningRateScheduler(lambda lr, step: 0.5 if step < 3 else lr / 2)
    look = LambdaCallback(on_train_step_end=lambda context: seen.append(rate(made)))
    made.train(1, batches(5), callbacks=[schedule, look])
    assert seen == [0.5, 0.5, 0.25, 0.125, 0.0625]


def test_a_rate_that_is_a_tensor() -> None:
    net = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.1))
    made = Model(net, nn.CrossEntropyLoss(), optimizer)
    made.train(1, batches(), callbacks=LearningRateScheduler(lambda lr, step: 0.25))
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
    assert rate(made) == 0.25


def test_history_has_an_entry_per_epoch() -> None:
    done = History()
    made = model()
    made.fit(2, batches(), batches(), callbacks=done)
    assert done.epoch == {"epoch": [1, 2]}
    assert {name: len(values) for name, values in done.history.items()} == {
        "net_output": 2,
        "accuracy": 2,
        "loss": 2,
    }
    assert done.history["accuracy"][-1] == made.eval(batches())["accuracy"]


# ------------------------------------------------------------------ checkpoints


def test_checkpoints_have_names_and_the_oldest_go(tmp_path: Path) -> None:
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=2)
    saving = ModelCheckpoint("ck", str(tmp_path), config)
    made = model()
    made.train(2, batches(), callbacks=saving)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ck-2_1.ckpt", "ck-2_3.ckpt"]
    assert saving.latest_ckpt_file_name == str(tmp_path / "ck-2_3.ckpt")
    found = load_checkpoint(saving.latest_ckpt_file_name)
    assert (found["epoch_num"], found["step_num"]) == (2, 6)
    assert torch.equal(found["0.weight"], made.network[0].weight)  # type: ignore[index]
    made.train(1, batches(), callbacks=ModelCheckpoint("ck", str(tmp_path), config))
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"ck-2_1.ckpt", "ck-2_3.ckpt", "ck_1-1_2.ckpt", "ck_1-1_3.ckpt"}


def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole = model()
    whole.train(4, batches())
    part = model()
    part.train(2, batches(), callbacks=ModelCheckpoint("ck", str(tmp_path)))
    other = model(lr=0.7)
    other.optimizer.step()  # type: ignore[union-attr]
    file = tmp_path / "ck-2_3.ckpt"
    facts = load_checkpoint(file, other.network, strict_load=True, optimizer=other.optimizer)
    other.train(4, batches(), initial_epoch=facts["epoch_num"])
    for one, two in zip(other.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_best_one_is_kept(tmp_path: Path) -> None:
    done = History()
    saving = ModelCheckpoint("ck", str(tmp_path), save_checkpoint_steps=0, monitor="accuracy")
    model().fit(5, batches(), batches(), callbacks=[saving, done])
    assert [file.name for file in tmp_path.iterdir()] == ["ck-best.ckpt"]
    found = load_checkpoint(tmp_path / "ck-best.ckpt")
    assert found["accuracy"] == max(done.history["accuracy"])


def test_by_time_and_after_an_error(tmp_path: Path) -> None:
    class Broken(Callback):
        def on_train_step_end(self, run_context: RunContext) -> None:
            if run_context.original_args().cur_step_num == 2:
                raise RuntimeError("broken")

    config = CheckpointConfig(save_checkpoint_seconds=1000, exception_save=True)
    with pytest.raises(RuntimeError, match="broken"):
        model().train(1, batches(), [ModelCheckpoint("ck", str(tmp_path), config), Broken()])
    assert [file.name for file in tmp_path.iterdir()] == ["ck-1_2_breakpoint.ckpt"]


def test_a_disk_that_cannot_be_written_ends_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    (tmp_path / "file").write_text("")
    done = History()
    model().train(2, batches(), [ModelCheckpoint("ck", str(tmp_path / "file")), done])
    assert done.epoch["epoch"] == [1, 2]
    assert "is not saved" in capsys.readouterr().err


def test_the_best_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model()
    saving = SaveCallback(made, batches(), directory=str(tmp_path), every=2)
    made.train(6, batches(), callbacks=saving)
    files = [float(file.name.removesuffix(".ckpt")) for file in tmp_path.iterdir()]
    assert max(files) == saving.acc > 0.5
    assert capsys.readouterr().out.count("Save the maximum accuracy checkpoint") == len(files)


LEAVES = """
import sys, time, torch
from opscope.train import *
torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
class Slow(Callback):
    def step_end(self, run_context):
        print(run_context.original_args().cur_step_num, flush=True)
        time.sleep(0.02)
data = [(torch.randn(8, 4), torch.zeros(8, dtype=torch.long))] * 1000
model = Model(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
model.train(9, data, callbacks=[Slow(), OnRequestExit(directory="out")])
print("left", flush=True)
"""


def test_a_signal_saves_and_leaves(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES)
    command = [sys.executable, "leaves.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "3":
            assert process.poll() is None
        os.kill(process.pid, signal.SIGTERM)
        rest = process.stdout.read().split()
    assert process.returncode == 0
    assert rest[-1] == "left"
    (file,) = (tmp_path / "out").iterdir()
    step = int(rest[-2]) if len(rest) > 1 else 3
    assert file.name == f"Net-1_{step}.ckpt"
    assert load_checkpoint(file)["step_num"] == step


# ------------------------------------------------------------------ for other tools


def events(directory: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory), size_guidance={"histograms": 0})
    found.Reload()
    return found


def test_event_files_hold_scalars_histograms_and_the_graph(tmp_path: Path) -> None:
    losses: list[float] = []
    look = LambdaCallback(
        on_train_step_end=lambda c: losses.append(float(c.original_args().net_outputs))
    )
    made = model()
    collecting = SummaryCollector(str(tmp_path), collect_freq=2)
    made.fit(2, batches(), batches(), callbacks=[collecting, look])
    found = events(tmp_path)
    scalars = {(e.step, round(e.value, 5)) for e in found.Scalars("loss")}
    assert scalars == {(s, round(losses[s - 1], 5)) for s in (1, 2, 4, 6)}
    assert [e.value for e in found.Scalars("learning_rate")] == pytest.approx([0.1] * 4)
    accuracy = found.Scalars("eval/accuracy")
    assert [e.step for e in accuracy] == [3, 6]
    assert accuracy[-1].value == pytest.approx(made.eval(batches())["accuracy"])
    (histogram,) = [h for h in found.Histograms("0.weight") if h.step == 6]
    weight = made.network[0].weight  # type: ignore[index]
    assert histogram.histogram_value.num == weight.numel()
    assert histogram.histogram_value.sum == pytest.approx(weight.sum().item(), rel=1e-4)
    assert found.Histograms("2.bias/gradient")
    names = [node.name for node in _graph(found).node]
    assert any("Linear[0]" in name for name in names)


def _graph(found: Any) -> Any:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    graph = GraphDef()
    graph.ParseFromString(found.Graph().SerializeToString())
    return graph


def test_only_what_is_asked_for_is_collected(tmp_path: Path) -> None:
    collecting = SummaryCollector(
        str(tmp_path), 1, {"histogram_regular": "bias"}, keep_default_action=False
    )
    model().train(1, batches(), callbacks=collecting)
    tags = events(tmp_path).Tags()
    assert tags["scalars"] == []
    assert not tags["graph"]
    assert set(tags["histograms"]) == {"0.bias", "2.bias", "0.bias/gradient", "2.bias/gradient"}


def test_collecting_changes_nothing(tmp_path: Path) -> None:
    plain, collected = model(), model()
    plain.train(2, batches())
    collected.train(2, batches(), callbacks=SummaryCollector(str(tmp_path), 1))
    for one, two in zip(plain.network.parameters(), collected.network.parameters(), strict=True):
        assert torch.equal(one, two)


def test_scalars_are_exported(tmp_path: Path) -> None:
    made = model()
    exporting = ExportScalars("tensorboard", directory=str(tmp_path / "live"))
    with opscope.start(run_dir=tmp_path / "run", watch="none"):
        made.train(2, batches(), callbacks=exporting)
    live = events(tmp_path / "live").Scalars("loss")
    assert [event.step for event in live] == [1, 2, 3, 4, 5, 6]
    count = export_run(str(tmp_path / "run"), "tensorboard", directory=str(tmp_path / "after"))
    after = events(tmp_path / "after").Scalars("loss")
    assert count == len(after) == 6
    assert [e.value for e in after] == [e.value for e in live]


# ------------------------------------------------------------------ watching


def test_watch_finds_where_a_nan_began(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.fc(x) * 0).log()

    net = Net()
    made = Model(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
    watch = Watch(on_hit="log", run_dir=tmp_path / "run")
    made.train(1, batches(), callbacks=watch)
    assert {hit.nonfinite for hit in watch.hits} == {True}
    assert "log-op0" in watch.hits[0].about
    run = opscope.open(tmp_path / "run")
    assert len(run.steps) == 3


def test_watch_changes_nothing_and_keeps_results(tmp_path: Path) -> None:
    plain, watched = model(), model()
    plain.fit(2, batches(), batches())
    watched.fit(2, batches(), batches(), callbacks=Watch(run_dir=tmp_path / "run"))
    for one, two in zip(plain.network.parameters(), watched.network.parameters(), strict=True):
        assert torch.equal(one, two)
    lines = (tmp_path / "run/rank_0/scalars.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"eval_accuracy"' in lines[0]
    assert opscope.session.current_session() is None or not (  # type: ignore[attr-defined]
        opscope.session.current_session().running  # type: ignore[attr-defined]
    )


STOPPED = """
import torch
from opscope.train import Model, Watch, LossMonitor
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
    def forward(self, x):
        return (self.fc(x) * 0).log()
net = Net()
data = [(torch.randn(8, 4), torch.zeros(8, dtype=torch.long))] * 3
model = Model(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
model.train(1, data, callbacks=[LossMonitor(), Watch()])
print("never")
"""


def test_under_opscope_run_a_hit_ends_training_with_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    done = opscope_program("run", "stopped.py", cwd=tmp_path, GLOG_v="4")
    assert done.returncode == 3
    assert "never" not in done.stdout
    assert "origin: stopped.py:9" in done.stderr


def test_the_example(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "callbacks.py"
    options = ("--epochs", "2", "--pictures", "16", "--checkpoints", str(tmp_path))
    done = python(script, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Eval result: epoch 2, metrics: {'accuracy': " in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["alexnet-best.ckpt"]

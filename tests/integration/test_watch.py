"""Watchpoints while training runs: what stops it and where, what is told, written and saved."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import opscope
from helpers.engines import needs_observer
from helpers.models import MODELS, assert_identical
from helpers.watched import Formula, train, watched
from opscope.errors import ConfigError
from opscope.judge.hits import Hit
from opscope.read.run import open_run
from opscope.watch import callbacks

safetensors = pytest.importorskip("safetensors.torch")
INF, NAN = math.inf, math.nan


def log_of_zero(at: int) -> Callable[[Tensor, int], Tensor]:
    """A loss that is infinite in one step."""
    return lambda y, step: (y * 0).log().sum() if step == at else y.square().sum()


# ------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_training_ends_before_the_bad_update(optimizer: Any, tmp_path: Path) -> None:
    seen: dict[str, Tensor] = {}

    def loss_of(y: Tensor, step: int) -> Tensor:
        if step == 3:
            seen.update({name: p.detach().clone() for name, p in model.named_parameters()})
        return log_of_zero(3)(y, step)

    with watched(tmp_path) as found:
        model = nn.Linear(3, 2)
        train(9, loss_of, model, optimizer)
    assert found.stopped and found.sink.ended
    assert {hit.step for hit in found.hits} == {3}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, seen[name])
    state = found.rank / found.verdict["state"]
    saved = safetensors.load_file(state / "parameters.safetensors")
    assert saved.keys() == seen.keys()
    for name, value in saved.items():
        assert torch.equal(value, seen[name]) and value.isfinite().all()


def test_a_fault_of_the_optimizer_itself_ends_training_after_it(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        train(9, lambda y, step: y.sum() * 1e3, rate=1e38)
    assert found.stopped
    assert {hit.step for hit in found.hits} == {0}
    assert found.verdict["phase"] == "optimizer"


def test_going_on_after_a_hit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with watched(tmp_path, on_hit="log") as found:
        train(60, log_of_zero(2))
    assert not found.stopped
    assert {hit["step"] for hit in found.written} == {*range(2, 60)}, "all of them are written"
    printed = capfd.readouterr().err
    assert printed.count("origin: ") == 3
    assert len(printed.splitlines()) < 120, "few are printed"
    assert "internal error" not in printed


def test_each_hit_is_told_of_once(tmp_path: Path) -> None:
    """Also in the first step, whose rows follow those of the setup."""
    for size in (1, 50):
        with watched(tmp_path / str(size), on_hit="log", watch="TZ op_type=mul; OO") as found:
            [torch.ones(2) * 0 for _ in range(size)]
            train(1, lambda y, step: (y * 0).log().sum())
        assert [hit.watchpoint.condition.abbr for hit in found.hits].count("TZ") == 1
        places = [(hit.node.id, hit.slot) for hit in found.of("OO") if hit.node is not None]
        assert len(places) == len({*places})


def test_kinds_of_hits_that_end_training(tmp_path: Path) -> None:
    watch = "TL max_gt=-1e9 regex=^Default/sum; TO"
    with watched(tmp_path / "a", watch=watch) as found:
        train(2, log_of_zero(9))
    assert not found.stopped and len(found.of("TL")) == 2
    with watched(tmp_path / "b", watch=watch, on_hit_kinds="all") as found:
        train(2, log_of_zero(9))
    assert found.stopped and len(found.of("TL")) == 1
    with watched(tmp_path / "c", watch=watch, on_hit_kinds="tl, WCL") as found:
        train(2, log_of_zero(9))
    assert found.stopped
    with watched(tmp_path / "d", watch=watch, on_hit_kinds="WCL") as found:
        train(2, log_of_zero(0))
    assert not found.stopped and found.of("TO")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_hit_kinds": "XX"}, "XX is neither nonfinite, all nor a condition"),
        ({"on_hit": "sleep"}, "on_hit"),
        ({"watch": "TL; TQ; TL max_gt=x"}, "TQ"),
        ({"save_state": "much"}, "save"),
    ],
)
def test_wrong_options_are_said_before_anything_runs(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        opscope.start(run_dir=tmp_path, **options)


def test_quick_looks_for_nan_and_inf_only(tmp_path: Path) -> None:
    with watched(tmp_path / "a", quick=True, on_hit="log") as found:
        train(25, lambda y, step: y.sum(), rate=0.0)
    assert found.hits == []
    with watched(tmp_path / "b", quick=True) as found:
        train(25, log_of_zero(1), rate=0.0)
    assert found.stopped and found.conditions <= {"OO", "LN", "WO"}


def test_without_watchpoints_there_are_no_hits(tmp_path: Path) -> None:
    with watched(tmp_path, watch="none") as found:
        train(3, log_of_zero(1))
    assert found.session.watch is None and not found.stopped
    assert not (found.rank / "hits.jsonl").exists()
    assert len(open_run(found.folder).rank(0).steps) >= 3


def test_a_script_that_catches_everything_is_stopped_at_each_step(tmp_path: Path) -> None:
    reached = []
    with watched(tmp_path) as found:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(5):
            with contextlib.suppress(BaseException):
                optimizer.zero_grad()
                log_of_zero(2)(model(torch.randn(4, 3)), step).backward()
                optimizer.step()
                reached.append(step)
    assert reached == [0, 1]
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert found.sink.ended


# ------------------------------------------------------------------------------- kinds of loops


def test_several_optimizers(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        maker, critic = nn.Linear(2, 3), nn.Linear(3, 1)
        steps = [torch.optim.Adam(m.parameters(), 1e-2) for m in (maker, critic)]
        updated = []
        for step in range(4):
            fake = maker(torch.randn(4, 2))
            steps[1].zero_grad()
            critic(fake.detach()).mean().backward()
            steps[1].step()
            updated.append(("critic", step))
            steps[0].zero_grad()
            made = critic(fake).mean()
            (made if step < 2 else (made * 0).log()).backward()
            steps[0].step()
            updated.append(("maker", step))
    assert found.stopped
    assert updated[-1] == ("critic", 2)
    assert found.verdict["step"] == 2
    assert all(parameter.isfinite().all() for parameter in maker.parameters())


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("clips", [False, True])
def test_steps_that_a_scaler_skips_are_no_hits(fused: bool, clips: bool, tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(torch.randn(4, 8)).square().mean()
            scaler.scale(loss).backward()
            if clips:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    assert found.hits == [] and not found.stopped
    assert "4 updates with non-finite gradients skipped" in found.sink.summary()
    steps = open_run(found.folder).rank(0).steps
    assert [step.skipped for step in steps if step.complete] == [True] * 4


def test_a_forward_fault_is_a_hit_also_under_a_scaler(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(4):
            optimizer.zero_grad()
            out = model(torch.randn(4, 8))
            scaler.scale(log_of_zero(2)(out, step)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert found.stopped and found.verdict["op_type"] == "log" and found.verdict["step"] == 2


def test_gradient_accumulation(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            optimizer.zero_grad()
            for part in range(3):
                bad = (step, part) == (2, 1)
                out = model(torch.randn(4, 3))
                ((out * 0).log() if bad else out).sum().backward()
            optimizer.step()
    assert found.stopped and found.verdict["step"] == 2


def test_lbfgs(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        x = torch.randn(8, 3)
        for step in range(4):

            def closure(step: int = step) -> Tensor:
                optimizer.zero_grad()
                loss = log_of_zero(2)(model(x), step)
                loss.backward()
                return loss

            optimizer.step(closure)
    assert found.stopped and found.verdict["step"] == 2 and found.verdict["op_type"] == "log"


def test_evaluations_are_watched_if_asked(tmp_path: Path) -> None:
    def run(**options: Any) -> list[Hit]:
        with watched(tmp_path / str(options), on_hit="log", **options) as found:
            model = nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model.train()(torch.randn(4, 3)).sum().backward()
                optimizer.step()
                with torch.no_grad():
                    F.relu(model.eval()(torch.randn(4, 3)) * 0).log()
        return found.hits

    assert run() == []
    hits = run(include="eval")
    assert {hit.node.op_type for hit in hits if hit.node is not None} >= {"log"}
    assert {hit.node.phase.value for hit in hits if hit.node is not None} == {"eval"}


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"every": 3}, [6]), ({"steps": "4-5"}, [4, 5]), ({"steps": "0-1"}, [])],
)
def test_only_some_steps_are_watched(
    options: dict[str, Any], steps: list[int], tmp_path: Path
) -> None:
    with watched(tmp_path, on_hit="log", **options) as found:
        train(8, lambda y, step: (y * 0).log().sum() if step in (4, 5, 6) else y.sum(), rate=0.0)
    assert sorted({hit.step for hit in found.of("OO")}) == steps
    assert {hit["verdict"]["step"] for hit in found.written if "verdict" in hit} == {*steps}


def test_a_bad_parameter_is_seen_after_steps_that_were_not_watched(tmp_path: Path) -> None:
    with watched(tmp_path, steps="3-8") as found:
        train(8, log_of_zero(1))
    assert found.stopped
    assert found.verdict["entered"]["kind"] == "parameter"
    assert {hit.step for hit in found.hits} == {3}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@needs_observer
def test_a_training_in_a_thread(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        thread = threading.Thread(target=train, args=(6, log_of_zero(3)))
        thread.start()
        thread.join()
    assert found.sink.ended
    assert found.verdict["step"] == 3


def test_a_loop_without_optimizer(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = Formula(lambda p, x: p * x.log())
        passes = 0
        for step in range(6):
            model(torch.full((2,), 3.0 - step))
            passes += 1
    assert found.stopped and found.verdict["step"] == 3
    assert passes == 4  # the step ends where the next one begins


def test_a_loop_of_tensors_alone(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        weight, done = torch.ones(2, requires_grad=True), 0
        for step in range(6):
            (weight * torch.full((2,), 3.0 - step).log()).sum().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
            done += 1
    assert found.stopped and found.verdict["step"] == 3
    assert done == 4


def test_both_ways_of_watching_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opscope.capture import hook

    def verdicts(folder: Path) -> list[Any]:
        torch.manual_seed(0)
        with watched(folder, on_hit="log", save_state="none") as found:
            train(4, lambda y, step: torch.where(y > 0, y.sqrt(), 0.0).sum() + 0 * y.log().sum())
        return [
            (hit.step, hit.about, hit.message, (hit.verdict or {}).get("what"))
            for hit in found.hits
        ]

    with_hook = verdicts(tmp_path / "a")
    monkeypatch.setattr(hook, "load", lambda: None)
    assert with_hook == verdicts(tmp_path / "b") != []


@pytest.mark.parametrize("train_model", MODELS, ids=lambda model: model.__name__)
def test_training_is_the_same_with_the_recommended_set(
    train_model: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = train_model()
    with watched(tmp_path) as found:
        seen = train_model()
    assert_identical(plain, seen)
    assert found.hits == []
    assert "internal error" not in capfd.readouterr().err


# ---------------------------------------------------------------------------------- saved state


def test_the_state_that_is_saved(tmp_path: Path) -> None:
    inputs: list[Tensor] = []
    kept: dict[str, Any] = {}
    with watched(tmp_path) as found:
        torch.manual_seed(3)
        model = nn.BatchNorm1d(3)
        optimizer = torch.optim.Adam(model.parameters(), 0.1, betas=(0.5, 0.75))
        for step in range(4):
            inputs.append(torch.randn(4, 3))
            optimizer.zero_grad()
            loss = log_of_zero(2)(model(inputs[-1]), step)
            loss.backward()
            if step == 2:
                kept = {
                    "exp_avg": optimizer.state[model.weight]["exp_avg"].clone(),
                    "running_mean": model.running_mean.clone(),
                }
            optimizer.step()
    directory = found.rank / found.verdict["state"]
    assert found.verdict["state"] == "hits/step_2"
    load = {
        name: safetensors.load_file(directory / f"{name}.safetensors")
        for name in ("batch", "rng", "parameters", "optimizer", "origin")
    }
    assert torch.equal(load["batch"]["input0"], inputs[2])
    assert torch.equal(load["parameters"]["running_mean"], kept["running_mean"])
    assert torch.equal(load["optimizer"]["0/weight/exp_avg"], kept["exp_avg"])
    assert load["origin"]["output.0"].isneginf().all()
    assert (load["origin"]["input.0"] == 0).all()
    torch.set_rng_state(load["rng"]["torch"])
    assert torch.equal(torch.randn(4, 3), inputs[2]), "the step can be done again"
    about = json.loads((directory / "state.json").read_text())
    assert about["step"] == about["taken_in_step"] == 2
    assert about["optimizers"][0]["groups"][0]["betas"] == [0.5, 0.75]
    assert about["left_out"] == []


@pytest.mark.parametrize("by", ["a view", "the tensor", "out=", "foreach"])
def test_a_batch_is_saved_as_it_came_in_though_the_script_writes_to_it(
    tmp_path: Path, by: str
) -> None:
    def normalise(batch: Tensor) -> None:
        if by == "a view":
            batch[1:].mul_(3.0)
        elif by == "the tensor":
            batch.sub_(0.5).div_(2.0)
        elif by == "out=":
            torch.add(batch, 1.0, out=batch)
        else:
            torch._foreach_mul_([batch, batch.clone()], 2.0)

    inputs: list[Tensor] = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, batch: Tensor) -> Tensor:
            normalise(batch)
            return self.linear(batch)

    class Outer(nn.Sequential):
        def forward(self, batch: Tensor) -> Tensor:
            with torch.no_grad():
                self[0](batch)
            return self[0](batch)

    with watched(tmp_path) as found:
        model = Outer(Model())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            batch = torch.randn(4, 3)
            inputs.append(batch.clone())
            optimizer.zero_grad()
            log_of_zero(2)(model(batch), step).backward()
            optimizer.step()
    file = found.rank / found.verdict["state"] / "batch.safetensors"
    saved = safetensors.load_file(file)
    assert torch.equal(saved.pop("input0"), inputs[2]) and not saved


def test_state_is_saved_within_a_limit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with watched(tmp_path / "a", save_state="6KiB") as found:
        train(2, log_of_zero(0), nn.Linear(3, 2000))
    names = {path.name for path in (found.rank / found.verdict["state"]).iterdir()}
    assert "parameters.safetensors" not in names and "state.json" in names
    assert "not saved with the hit: " in capfd.readouterr().err
    with watched(tmp_path / "b", save_state="none") as found:
        train(2, log_of_zero(0))
    assert found.verdict.get("state") is None
    assert not (found.rank / "hits").exists()


def test_parameters_that_have_no_numbers_yet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.LazyLinear(2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    with watched(tmp_path) as found:
        model = Lazy()
        optimizer = torch.optim.SGD(model.used.parameters(), 0.1)
        (model(torch.randn(4, 3)) * 0).log().sum().backward()
        optimizer.step()
    assert found.stopped
    saved = safetensors.load_file(found.rank / found.verdict["state"] / "parameters.safetensors")
    assert {*saved} == {"used.weight", "used.bias"}
    assert "internal error" not in capfd.readouterr().err


# ------------------------------------------------------------------------------------ callbacks


def test_callbacks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    def bad(hit: Hit) -> None:
        raise RuntimeError("of the person's own")

    def good(hit: Hit) -> None:
        told.append(hit.watchpoint.condition.abbr)

    opscope.on_hit(bad)
    opscope.on_hit(good)
    try:
        with watched(tmp_path, on_hit="log") as found:
            train(3, log_of_zero(1))
    finally:
        callbacks.remove(bad)
        callbacks.remove(good)
    assert told == [hit.watchpoint.condition.abbr for hit in found.hits] != []
    assert capfd.readouterr().err.count("of the person's own") == 1

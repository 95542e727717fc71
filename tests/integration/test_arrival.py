"""A fault is what arrives: skipped batches are noted, masked values too, and leaving is told of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import opscope
from helpers.watched import Watched, watched
from opscope.commands import main

NAN = math.nan
BAD_STEP = 2


def notes(found: Watched) -> list[dict[str, Any]]:
    path = found.rank / "notes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def skipped(found: Watched) -> list[dict[str, Any]]:
    return [note for note in notes(found) if note["kind"] == "skipped"]


def same_offline(found: Watched) -> None:
    """A check of the run finds the same hits and notes."""
    checked = opscope.open(found.folder).check("recommended")
    live = [(hit.watchpoint.condition.abbr, hit.step, hit.call) for hit in found.hits]
    offline = [(hit.watchpoint.condition.abbr, hit.step, hit.call) for hit in checked.hits]
    assert sorted(offline) == sorted(live)
    assert [json.loads(json.dumps(n.to_json())) for n in checked.harmless] == notes(found)


def log_of(y: Tensor, step: int, bad: tuple[int, ...] = (BAD_STEP,)) -> Tensor:
    """A loss that is infinite in some steps."""
    factor = 0.0 if step in bad else 1.0
    return -(y.square() * factor + (1 - factor) * 0).log().mean()  # the line


class Left(Exception):  # noqa: N818
    """What a script raises by itself."""


Loop = Callable[[nn.Module, torch.optim.Optimizer], None]


def run(folder: Path, loop: Loop, model: nn.Module | None = None, **options: Any) -> Watched:
    torch.manual_seed(0)
    options = {"save_state": "none"} | options
    with watched(folder, **options) as found:
        model = model or nn.Linear(3, 2)
        loop(model, torch.optim.SGD(model.parameters(), 0.01))
    return found


def batch() -> Tensor:
    return torch.randn(4, 3)


# ------------------------------------------------------------------------------- the script leaves


def raises(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        loss = log_of(model(batch()), step)
        if not torch.isfinite(loss):
            raise Left
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def breaks(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        optimizer.zero_grad()
        loss = log_of(model(batch()), step)
        if math.isinf(loss.item()):
            break
        loss.backward()
        optimizer.step()


def exits(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        loss = log_of(model(batch()), step)
        if loss.detach().numpy() > 1e30:
            raise SystemExit(7)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def asserts_on_gradients(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        optimizer.zero_grad()
        log_of(model(batch()), step).backward()
        for parameter in model.parameters():
            if torch.isnan(parameter.grad).any() or torch.isinf(parameter.grad).any():
                raise Left
        optimizer.step()


def clips_strictly(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        optimizer.zero_grad()
        log_of(model(batch()), step).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()


def torch_raises(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        y = model(batch())
        loss = log_of(y, step)
        torch.multinomial((y * loss).softmax(-1), 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def raises_in_accumulation(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        optimizer.zero_grad()
        for micro in range(3):
            loss = log_of(model(batch()), 3 * step + micro, bad=(3 * BAD_STEP + 1,))
            if not loss.isfinite():
                raise Left
            loss.backward()
        optimizer.step()


def prints_and_leaves(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        loss = log_of(model(batch()), step)
        if "inf" in f"{loss}":
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def lists_and_raises(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        losses = log_of(model(batch()), step)[None]
        if any(math.isinf(each) for each in losses.tolist()):
            raise Left
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()


def asks_numpy_and_raises(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(4):
        y = model(batch())
        with torch.no_grad():
            weight = log_of(y, step)
        if not np.isfinite(weight.numpy()):
            raise Left
        optimizer.zero_grad()
        (y.square().mean() * weight).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "loop",
    [
        raises,
        breaks,
        exits,
        asserts_on_gradients,
        clips_strictly,
        torch_raises,
        raises_in_accumulation,
        prints_and_leaves,
        lists_and_raises,
        asks_numpy_and_raises,
    ],
    ids=lambda loop: loop.__name__,
)
def test_a_script_that_leaves_gets_a_verdict_and_keeps_its_exit(loop: Loop, tmp_path: Path) -> None:
    """Its own exception goes its way: nothing of opscope ends it."""
    caught: list[BaseException] = []

    def guarded(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        try:
            loop(model, optimizer)
        except (Left, RuntimeError) as error:
            caught.append(error)
        except SystemExit as error:
            assert error.code == 7
            caught.append(error)

    found = run(tmp_path, guarded)
    assert not found.stopped
    assert bool(caught) == (loop not in (breaks, prints_and_leaves))
    assert found.verdict["op_type"] == "log"
    assert found.verdict["step"] == BAD_STEP
    assert "# the line" in found.verdict["code"]
    assert found.verdict["reached"]["parameters"] == 0
    same_offline(found)


# ------------------------------------------------------------------------------- skipped batches


def skips(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        loss = log_of(model(batch()), step, bad=(2, 3, 5))
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def skips_after_backward(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        optimizer.zero_grad()
        log_of(model(batch()), step, bad=(2, 3, 5)).backward()
        if not torch.isfinite(nn.utils.clip_grad_norm_(model.parameters(), 1.0)):
            continue
        optimizer.step()


def skips_quietly(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        optimizer.zero_grad(set_to_none=False)
        loss = log_of(model(batch()), step, bad=(2, 3, 5))
        loss.backward()
        if loss.isfinite():
            optimizer.step()


def skips_numbers_of_the_script(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        x = batch()
        if step in (2, 3, 5):
            x[1, 1] = math.nan
        loss = model(x).square().mean()
        if loss.isnan():
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def skips_batches_of_a_loader(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    samples = torch.cat([batch() for _ in range(8)])
    samples.numpy()[[9, 14, 20]] = math.nan
    for (x,) in DataLoader(TensorDataset(samples), batch_size=4):
        loss = model(x).square().mean()
        if loss.isnan():
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("loop", [skips_numbers_of_the_script, skips_batches_of_a_loader])
def test_batches_that_came_in_bad_are_noted_one_by_one(loop: Loop, tmp_path: Path) -> None:
    found = run(tmp_path, loop)
    assert not found.stopped and found.hits == []
    assert [(note["step"], note["pass"]) for note in skipped(found)] == [(2, 0), (2, 1), (3, 0)]
    same_offline(found)


def skips_by_a_list(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        loss = log_of(model(batch()), step, bad=(2, 3, 5))
        if not math.isfinite(loss.tolist()):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize(
    "loop",
    [skips, skips_after_backward, skips_quietly, skips_by_a_list],
    ids=lambda loop: loop.__name__,
)
def test_every_skipped_batch_is_noted_and_none_is_a_hit(loop: Loop, tmp_path: Path) -> None:
    found = run(tmp_path, loop)
    assert not found.stopped and found.hits == []
    assert [note["op_type"] for note in skipped(found)] == ["log"] * 3
    assert all(note["where"].startswith(__file__) for note in skipped(found))
    assert len({(note["step"], note["pass"]) for note in skipped(found)}) == 3
    assert "skipped by the script" in found.sink.summary()
    same_offline(found)


def test_a_metric_after_the_last_step_is_no_leaving(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(batch()).square().mean()
            loss.backward()
            optimizer.step()
            assert math.isinf((loss.detach() * 1e4 + 1e3).exp().item())

    found = run(tmp_path, loop)
    assert found.hits == []
    same_offline(found)


def test_a_batch_with_all_labels_ignored(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(5):
            labels = torch.full((4,), -100) if step == 2 else torch.zeros(4, dtype=torch.long)
            loss = F.cross_entropy(model(batch()), labels)
            if loss.isnan():
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    found = run(tmp_path, loop)
    assert not found.stopped and found.hits == []
    assert len(skipped(found)) == 1


def test_a_skipped_batch_that_spoils_running_statistics_is_a_hit(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(4):
            x = torch.tensor([[NAN, 1.0, 2.0]] * 4) if step == 2 else batch()
            loss = model(x).square().mean()
            if loss.isnan():
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    found = run(tmp_path, loop, model)
    assert found.stopped
    assert found.verdict["reached"]["buffers"] == 2
    assert found.verdict["entered"]["kind"] == "batch"


def test_a_loss_that_is_used_counts_beside_one_that_is_skipped(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(4):
            optimizer.zero_grad()
            for micro in range(2):
                log_of(model(batch()), step + 10 * micro, bad=(12,)).backward()
            optimizer.step()

    found = run(tmp_path, loop)
    assert found.stopped
    assert (found.verdict["step"], found.verdict["pass"]) == (2, 1)


# ------------------------------------------------------------------------------- masked


def test_ctc_with_zero_infinity(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        ctc = nn.CTCLoss(zero_infinity=True)
        for _ in range(4):
            scores = model(torch.randn(5, 2, 3)).log_softmax(-1)
            targets = torch.ones(2, 4, dtype=torch.long)  # too long for five frames
            lengths = torch.tensor([5, 5]), torch.tensor([4, 1])
            optimizer.zero_grad()
            ctc(scores, targets, *lengths).backward()
            optimizer.step()

    found = run(tmp_path, loop, nn.Linear(3, 4))
    assert found.hits == []


class Guarded(torch.optim.Optimizer):
    """Divides by what may be zero, and takes the quotient only where it is not."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                size = p.grad.abs()
                p.sub_(0.01 * torch.where(size > 0, p.grad / size, torch.zeros_like(size)))


def test_a_division_guarded_by_where_in_an_optimizer(tmp_path: Path) -> None:
    with watched(tmp_path, save_state="none") as found:
        model = nn.Linear(3, 2)
        optimizer = Guarded(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(batch())[:, 0].mean().backward()
            optimizer.step()
    assert found.hits == []
    assert [note["kind"] for note in notes(found)] == ["masked"] * len(notes(found))


def test_the_gradient_of_a_root_that_relu_multiplies_away(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(4):
            optimizer.zero_grad()
            model(batch()).relu().sqrt().sum().backward()
            optimizer.step()

    found = run(tmp_path, loop)
    assert found.hits == []
    assert {note["kind"] for note in notes(found)} == {"masked"}
    assert len(notes(found)) == 1, "once, not in every step"
    same_offline(found)


def test_gradients_that_the_script_mends(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(4):
            optimizer.zero_grad()
            loss = model(batch()).square()
            (loss * (step != 2)).sqrt().sum().backward()
            for parameter in model.parameters():
                if step % 2:
                    parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
                else:
                    parameter.grad = parameter.grad.nan_to_num(0.0, 0.0, 0.0)
            optimizer.step()

    found = run(tmp_path, loop)
    assert found.hits == []
    same_offline(found)


# ------------------------------------------------------------------------------- parameters


def test_a_bias_is_no_mask(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.bias.fill_(-7e4)
        model.weight.fill_(-1e23)

    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(torch.full((4, 3), 1e22)).sum().backward()
        optimizer.step()

    found = run(tmp_path, loop, model)
    assert found.stopped
    assert found.verdict["op_type"] == "addmm"
    assert "on purpose" not in found.verdict["what"]


def test_reached_is_what_is_so_when_the_verdict_is_given(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(4):
            optimizer.zero_grad()
            (model(batch())[:, :1].square() * (step != 2)).sqrt().sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    found = run(tmp_path, loop)
    assert found.stopped
    reached = found.verdict["reached"]
    assert (reached["gradients"], reached["parameters"], reached["loss"]) == (2, 0, False)


def test_explicit_conditions_are_literal(tmp_path: Path) -> None:
    def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(batch()).relu().sqrt().sum().backward()
        optimizer.step()

    found = run(tmp_path, loop, watch="OO; GE", on_hit="log")
    assert {"OO", "GE"} <= found.conditions


def test_hits_shows_what_was_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, skips)
    capsys.readouterr()
    assert main(["hits", str(found.folder)]) == 0
    said = capsys.readouterr()
    assert "3 noted, which are no hits" in said.err
    assert said.out.count("the script skipped this batch") == 3

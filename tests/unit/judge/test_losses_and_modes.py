"""Conditions on losses, targets, modes and words, on real trainings: each with its healthy twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.watched import Watched, watched
from opscope.capture.steps import StepClock
from opscope.messages import forget_said

LossOf = Callable[[Tensor, Tensor], Tensor]


def run(folder: Path, watch: str, training: Callable[[], None]) -> Watched:
    torch.manual_seed(0)
    with watched(folder, watch=watch, on_hit="log", save_state="none") as found:
        training()
    return found


def fit(model: nn.Module, loss_of: Callable[[], Tensor], steps: int = 6) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def classify(outputs: int, loss_of: LossOf) -> Callable[[], None]:
    """Train a layer on two classes, with this loss of its outputs and the labels."""

    def training() -> None:
        model = nn.Linear(3, outputs)
        fit(model, lambda: loss_of(model(torch.randn(8, 3)), torch.arange(8) % min(outputs, 2)))

    return training


def kl(logits: Tensor, y: Tensor, soft: Callable[..., Tensor]) -> Tensor:
    return F.kl_div(soft(logits, dim=1), F.one_hot(y, 4) * 0.8 + 0.05, reduction="batchmean")


LOSSES: list[tuple[str, int, LossOf, LossOf, str]] = [
    ("LA", 4, lambda z, y: F.nll_loss(z.log_softmax(0), y),
     lambda z, y: F.nll_loss(z.log_softmax(1), y),
     "log_softmax is over dimension 0 of [8, 4], but nll_loss takes dimension 1"),
    ("LA", 1, lambda z, y: F.cross_entropy(z, y),
     lambda z, y: F.binary_cross_entropy_with_logits(z[:, 0], y.float()),
     "softmax over dimension 1 of [8, 1], which has one element, is always 1"),
    ("LA", 1, lambda z, y: F.binary_cross_entropy(z.softmax(1)[:, 0], y.float()),
     lambda z, y: F.binary_cross_entropy(z.sigmoid()[:, 0], y.float()),
     "which has one element, is always 1"),
    ("LA", 4, lambda z, y: kl(z, y, F.softmax), lambda z, y: kl(z, y, F.log_softmax),
     "kl_div is given probabilities as its input, but expects their logarithms"),
    ("LA", 4, lambda z, y: F.cross_entropy(z.sigmoid(), y),
     lambda z, y: F.cross_entropy(4 * z.tanh(), y),
     "given the output of sigmoid, which is between 0 and 1, but expects logits"),
    ("LA", 4, lambda z, y: F.cross_entropy(z.relu(), y),
     lambda z, y: F.cross_entropy(F.leaky_relu(z), y),
     "given the output of relu, which is never below 0, but expects logits"),
    ("LT", 4, lambda z, y: F.cross_entropy(z, torch.ones(8, 4)),
     lambda z, y: F.cross_entropy(z, torch.full((8, 4), 0.25)),
     "the targets of cross_entropy add up to 4 per sample on average"),
    ("LT", 4, lambda z, y: F.cross_entropy(z, F.one_hot(y, 4) * 1.5),
     lambda z, y: F.cross_entropy(z, F.one_hot(y, 4) * (torch.arange(8) < 6)[:, None].float()),
     "add up to 1.5 per sample"),
    ("NE", 1, lambda z, y: F.layer_norm(z, (1,)).mean(),
     lambda z, y: F.layer_norm(z.T, (8,)).square().mean(), "layer_norm is over single elements"),
    ("NE", 4, lambda z, y: F.group_norm(z, 4).mean(), lambda z, y: F.group_norm(z, 2).mean(),
     "group_norm is over single elements"),
]  # fmt: skip


@pytest.mark.parametrize(("abbr", "outputs", "wrong", "right", "text"), LOSSES)
def test_losses(
    abbr: str, outputs: int, wrong: LossOf, right: LossOf, text: str, tmp_path: Path
) -> None:
    found = run(tmp_path / "a", "recommended", classify(outputs, wrong))
    assert [hit.step for hit in found.of(abbr)] == [0]
    assert text in found.of(abbr)[0].message
    assert Path(__file__).name in found.of(abbr)[0].where
    assert run(tmp_path / "b", abbr, classify(outputs, right)).hits == []


def test_a_softmax_over_another_view_is_no_fault(tmp_path: Path) -> None:
    """A sequence is normalised over its last dimension, and flattened for the loss."""

    def training() -> None:
        model = nn.Linear(3, 4)

        def loss_of() -> Tensor:
            scores = model(torch.randn(2, 5, 3)).log_softmax(-1)
            return F.nll_loss(scores.view(10, 4), torch.arange(10) % 4)

        fit(model, loss_of)

    assert run(tmp_path, "LA", training).hits == []


# ------------------------------------------------------------------------------- words and batches


@pytest.mark.parametrize(("size", "constant", "hits"), [(40, 7, 1), (40, None, 0), (4, 2, 0)])
def test_words_that_are_all_the_same(
    size: int, constant: int | None, hits: int, tmp_path: Path
) -> None:
    """Of a small table, such as of kinds of words, one row may well be all that is read."""

    def training() -> None:
        model = nn.Embedding(size, 4)

        def loss_of() -> Tensor:
            words = torch.randint(0, size, (4, 6))
            words[:, 3:] = 0  # padding, written into a part of it
            if constant is not None:
                words = torch.full((4, 6), constant)
            return model(words).square().mean()

        fit(model, loss_of)

    found = run(tmp_path, "DB steps_ge=3", training)
    assert len(found.hits) == hits
    if hits:
        assert "every element of the batch is 7, in each of 3 steps" in found.hits[0].message


def test_buffers_are_no_batches(tmp_path: Path) -> None:
    """The running variance of a batch norm in eval mode is 1 throughout, and no data."""

    def training() -> None:
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8))
        model[1].eval()
        fit(model, lambda: model(torch.randn(4, 3)).square().mean())

    assert run(tmp_path, "DB steps_ge=3", training).hits == []


# ------------------------------------------------------------------------------- modes and updates


@pytest.mark.parametrize(
    ("momentum", "again", "hits"), [(0.0, 0.0, 1), (0.1, 0.1, 0), (0.1, 0.0, 0)]
)
def test_running_statistics_that_stand_still(
    momentum: float, again: float, hits: int, tmp_path: Path
) -> None:
    """A second pass may leave them alone, as that of sharpness-aware minimisation."""

    def training() -> None:
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

        def loss_of() -> Tensor:
            model.train()
            model[1].momentum = momentum
            loss = model(torch.randn(4, 3)).square().mean()
            model[1].momentum = again
            loss = loss + model(torch.randn(4, 3)).abs().mean()
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 3))
            return loss

        fit(model, loss_of)

    found = run(tmp_path, "ED", training)
    assert len(found.hits) == hits
    assert all("momentum=0 of the batch norm" in hit.message for hit in found.hits)


# ------------------------------------------------------------------------------- lost gradients


def accumulate(clears: str) -> Callable[[], None]:
    """Two networks and three micro-batches; where gradients are cleared, by whom."""

    def training() -> None:
        one, two = nn.Linear(3, 4), nn.Linear(4, 1)
        optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], 0.01)
        for _ in range(8):
            optimizer.zero_grad()
            for _ in range(3):
                if clears == "kept":
                    [
                        p.grad.clone()
                        for p in optimizer.param_groups[0]["params"]
                        if p.grad is not None
                    ]
                if clears in ("all", "kept"):
                    optimizer.zero_grad()
                if clears == "zeros":
                    optimizer.zero_grad(set_to_none=False)
                if clears == "one":
                    two.zero_grad()
                two(one(torch.randn(4, 3)).tanh()).square().mean().backward()
            optimizer.step()

    return training


@pytest.mark.parametrize(
    ("clears", "told"), [("all", [4]), ("zeros", [4]), ("none", []), ("one", []), ("kept", [])]
)
def test_gradients_that_nothing_uses(clears: str, told: list[int], tmp_path: Path) -> None:
    found = run(tmp_path, "GU", accumulate(clears))
    assert [hit.step for hit in found.hits] == told
    assert all("2 times in each of 5 steps" in hit.message for hit in found.hits)
    assert all("4 parameters" in hit.message and hit.where for hit in found.hits)


@pytest.mark.parametrize(
    ("layers", "hits"),
    [
        ((nn.Linear(3, 4), nn.Dropout(0.5)), 1),
        ((nn.Linear(3, 4), nn.BatchNorm1d(4)), 1),
        ((nn.Linear(3, 4), nn.Dropout(0.0)), 0),
        ((nn.Linear(3, 4), nn.Tanh()), 0),
    ],
)
def test_a_network_that_is_never_in_train_mode(
    layers: tuple[nn.Module, ...], hits: int, tmp_path: Path
) -> None:
    def training(trains: bool) -> Callable[[], None]:
        model = nn.Sequential(*layers).train(trains)
        return lambda: fit(model, lambda: model(torch.randn(4, 3)).square().mean())

    found = run(tmp_path / "a", "TE steps_ge=1", training(False))
    assert [hit.step for hit in found.hits] == [3] * hits
    if hits:
        assert "trained in eval mode from the start: " in found.hits[0].message
    assert run(tmp_path / "b", "TE steps_ge=1", training(True)).hits == []


@pytest.mark.parametrize(("bad", "hits"), [(5, [2]), (2, [])])
def test_a_scaler_that_skips_every_update(bad: int, hits: list[int], tmp_path: Path) -> None:
    def training() -> None:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for step in range(5):
            optimizer.zero_grad()
            size = 1e38 if step < bad else 1.0
            scaler.scale(model(torch.randn(4, 3)).sum() * size * size).backward()
            scaler.step(optimizer)
            scaler.update()

    found = run(tmp_path, "PU steps_ge=3", training)
    assert [hit.step for hit in found.hits] == hits
    if hits:
        assert "the gradient scaler has skipped each of the last 3 updates" in found.hits[0].message


def test_optimizers_that_never_step(capsys: pytest.CaptureFixture[str]) -> None:
    """After many backward passes steps are counted by calls, and it is said what may be missing."""
    forget_said()
    ended: list[bool] = []
    clock = StepClock(ended.append)
    known: list[int] = []
    clock.on_idle = lambda: known.append(len(clock.live()))
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)
    clock.add(optimizer)
    for _ in range(256):
        clock.network_called(lambda: "here", trains=True)
        clock.backward_ended()
    assert not ended
    clock.network_called(lambda: "here", trains=True)
    assert (ended, known) == ([False], [1])
    assert "SGD has not stepped in 256 backward passes" in capsys.readouterr().err
    clock.stepped(optimizer)
    assert clock.has_optimizer

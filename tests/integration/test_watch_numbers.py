"""Watchpoints that people set: the numbers of their hits, on a network whose numbers are known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import opscope
from helpers.watched import train, watched
from opscope.judge.hits import Hit

safetensors = pytest.importorskip("safetensors.torch")
INF, NAN = math.inf, math.nan


class Net(nn.Module):
    """Two layers whose every number is known."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            self.first.weight.copy_(torch.tensor([[1.0, -2.0], [3.0, 0.5]]))
            self.second.weight.copy_(torch.tensor([[2.0, -1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


X = np.array([[1.0, 2.0], [-1.0, 0.5], [4.0, 1.0]], np.float32)
W1 = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)
W2 = np.array([[2.0, -1.0]], np.float32)
H = X @ W1.T
A = np.maximum(H, 0)
RATE = 0.125
G2 = np.ones((3, 1), np.float32).T @ A
G1 = (np.ones((3, 1), np.float32) @ W2 * (H > 0)).T @ X


def net_hits(folder: Path, watch: str, steps: int = 1) -> list[Hit]:
    """Hits on the known network, trained with plain SGD."""
    with watched(folder, watch=watch, on_hit="log") as found:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), RATE)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.from_numpy(X)).sum().backward()
            optimizer.step()
    assert all(hit.step < steps for hit in found.hits)
    return found.hits


def only(hits: list[Hit]) -> dict[str, float]:
    """The numbers of the one hit there is."""
    assert len(hits) == 1, [(hit.about, hit.message) for hit in hits]
    return dict(hits[0].actual)


VALUES = [
    ("TL max_gt=12 node=mm-op0 scope=*first*", {"max_gt": H.max()}),
    ("TL mean_gt=0 op_type=relu", {"mean_gt": A.mean()}),
    ("TL abs_mean_gt=1 op_type=relu; TL max_gt=99 op_type=relu", {"abs_mean_gt": A.mean()}),
    ("TL max_gt=12.4 min_gt=-9 op_type=relu", {"max_gt": A.max(), "min_gt": 0.0}),
    ("TS min_lt=-2 regex=^Default.*first-Linear/mm", {"min_lt": H.min()}),
    ("TS mean_lt=9 op_type=relu", {"mean_lt": A.mean()}),
    ("TR max_min_gt=1 op_type=relu", {"max_min_gt": A.max() - A.min()}),
    (
        "TR range_percentage_gt=10 range_start_inclusive=0 range_end_inclusive=4 op_type=relu",
        {"range_percentage_gt": 100 * np.mean((A >= 0) & (A <= 4))},
    ),
    (
        "AR range_percentage_lt=99 range_end_inclusive=3.5",
        {"range_percentage_lt": 100 * np.mean(A <= 3.5)},
    ),
    ("TZ zero_percentage_ge=50 op_type=relu", {"zero_percentage_ge": 100 * np.mean(A == 0)}),
    ("GL max_gt=0 parameter=second.weight", {"max_gt": G2.max()}),
    ("GV abs_mean_lt=1e9 parameter=first.weight", {"abs_mean_lt": np.abs(G1).mean()}),
    ("WI min_lt=-1.5 parameter=first*", {"min_lt": -2.0}),
    ("WL max_gt=2.5", {"max_gt": 3.0}),
    ("WS min_lt=-1.5", {"min_lt": -2.0}),
    ("TL class=weight max_gt=2.5", {"max_gt": 3.0}),
]  # fmt: skip


@pytest.mark.parametrize(("watch", "actual"), VALUES, ids=[watch for watch, _ in VALUES])
def test_the_numbers_of_a_hit(watch: str, actual: dict[str, float], tmp_path: Path) -> None:
    hits = net_hits(tmp_path, watch)
    if watch.startswith("G"):
        hits = [hit for hit in hits if hit.node is not None and hit.node.gradient_of][-1:]
    assert only(hits) == pytest.approx({k: float(v) for k, v in actual.items()}, rel=1e-6)


def test_changes_of_weights(tmp_path: Path) -> None:
    hits = net_hits(tmp_path / "a", "WCL abs_mean_update_ratio_gt=0.01 parameter=first.weight", 2)
    ratio = np.abs(RATE * G1).mean() / (np.abs(W1).mean() + 1e-9)
    assert only(hits) == pytest.approx({"abs_mean_update_ratio_gt": ratio}, rel=1e-5)
    assert (hits[0].step, hits[0].parameter) == (1, "first.weight")
    assert net_hits(tmp_path / "b", "WCL abs_mean_update_ratio_gt=0.01", 1) == [], "no step before"
    ratio = np.abs(RATE * G2).mean() / (np.abs(W2).mean() + 1e-9)
    hits = net_hits(tmp_path / "c", "WCS abs_mean_update_ratio_lt=99 parameter=second*", 2)
    assert only(hits) == pytest.approx({"abs_mean_update_ratio_lt": ratio}, rel=1e-5)
    assert net_hits(tmp_path / "d", "WNC", 3) == []
    hits = net_hits(tmp_path / "e", "WNC rtol=99", 3)
    assert {(hit.step, hit.parameter) for hit in hits} == {
        (step, name) for step in (1, 2) for name in ("first.weight", "second.weight")
    }


def test_ranges_of_gradients_of_a_parameter(tmp_path: Path) -> None:
    watch = "TR class=gradient parameter=first.weight range_percentage_gt=1 range_end_inclusive=0"
    (hit, *_) = net_hits(tmp_path, watch)[-1:]
    assert hit.node is not None and hit.node.gradient_of == "first.weight"
    assert hit.actual["range_percentage_gt"] == pytest.approx(100 * np.mean(G1 <= 0))


def test_selections(tmp_path: Path) -> None:
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "return self.second(torch.relu" in text
    )  # fmt: skip
    select = {
        "class=activation": {"relu-op0"},
        "op_type=re*": {"relu-op0"},
        "scope=*/second-Linear": {"t-op0", "mm-op0"},
        "regex=second-Linear/mm": {"mm-op0"},
        f"line=test_watch_numbers.py:{line} class=activation": {"relu-op0"},
        "node=relu-op0": {"relu-op0"},
        "node=*/second-Linear/mm-op0": {"mm-op0"},
    }
    for number, (words, names) in enumerate(select.items()):
        hits = net_hits(tmp_path / str(number), f"TL abs_mean_gt=0 {words}")
        forward = [h.node for h in hits if h.node is not None and h.node.phase.value == "forward"]
        assert {node.name.rpartition("/")[2] for node in forward} == names, words


def test_muting(tmp_path: Path) -> None:
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "return self.second(torch.relu" in text
    )  # fmt: skip
    assert net_hits(tmp_path / "a", "TL abs_mean_gt=0 op_type=relu mute=relu-op0") == []
    assert net_hits(tmp_path / "b", f"AR max_min_gt=0 mute=test_watch_numbers.py:{line}") == []
    with watched(tmp_path / "c", watch="TL max_gt=-9 op_type=abs", on_hit="log") as found:
        train(1, lambda y, step: y.abs().sum())  # opscope: ignore
    assert found.hits == []


def test_a_watchpoint_added_while_training_runs(tmp_path: Path) -> None:
    with watched(tmp_path, watch="OO", on_hit="log") as found:

        def loss_of(y: Tensor, step: int) -> Tensor:
            if step == 2:
                opscope.add_watchpoint("AR", range_percentage_gt=1, range_start_inclusive=-9)
            return torch.relu(y).sum()

        train(5, loss_of)
    assert {hit.step for hit in found.of("AR")} >= {3, 4}

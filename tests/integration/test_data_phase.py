"""What a DataLoader runs in this process: a phase of its own, beside training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from helpers.forked import forked_opscope as opscope
from helpers.watched import watched
from opscope.capture import hook
from opscope.events import DATA_GRAPH
from opscope.read.run import open_run


class Normalize(nn.Module):
    """A transform that is a module, as those of torchvision are."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean()) / 2


class Numbers(Dataset):
    def __init__(self, transform: nn.Module) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(torch.arange(index, index + 2.0).sinh())


class Stream(IterableDataset):
    def __iter__(self):
        return iter([Normalize()(torch.full((2,), float(n))) for n in range(4)])


def train(loader: DataLoader) -> int:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for batch in loader:
        optimizer.zero_grad()
        model(batch * 2).square().mean().backward()
        optimizer.step()
        steps += 1
    return steps


@pytest.fixture(params=["native", "python"])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the native hook, and by the mode that stands in for it."""
    if request.param == "python":
        monkeypatch.setattr(hook, "load", lambda: None)


@pytest.mark.usefixtures("capture")
def test_transforms_and_collating_are_data_in_every_step(record) -> None:
    with record() as seen:
        steps = train(DataLoader(Numbers(Normalize()), 2, shuffle=True))
    assert steps == 4
    for step in range(steps):
        made = seen.of_type("sinh", step)
        assert len(made) == 2
        assert {c.node.phase.value for c in [*made, *seen.of_type("stack", step)]} == {"data"}
        assert {node.phase.value for node in seen.steps[step].orders[0]} == {
            *("forward", "backward", "optimizer")
        }
        assert seen.of_type("mul", step)[0].sources[0].kind == "batch"
    data = {node.name for node in seen.nodes if node.phase == "data"}
    assert {node.name for node in seen.nodes if node.graph == DATA_GRAPH} == data
    assert all(name.startswith("Default/data/") for name in data)
    assert "Default/data/unnamed-Normalize/sub-op0" in data
    assert "Default/network-Linear/addmm-op0" in {node.name for node in seen.nodes}


@pytest.mark.usefixtures("capture")
def test_the_same_nodes_before_training_and_after(record) -> None:
    with record() as seen:
        train(DataLoader(Numbers(Normalize()), 2))
    first, later = ([node.id for node in seen.steps[n].orders[DATA_GRAPH]] for n in (0, 1))
    loads = {node.id for node in seen.nodes if node.op_type in ("sinh", "mean", "sub", "div")}
    assert [n for n in first if n in loads] == [n for n in later if n in loads] != []


def test_iterable_datasets_and_loaders_one_after_the_other(record) -> None:
    with record() as seen:
        steps = sum(train(DataLoader(Stream(), 2)) for _ in range(2))
    ended = [step for step in seen.steps if step.complete]
    assert len(ended) == steps == 4
    assert {n.phase.value for s in ended for n in s.orders[0]} == {
        *("forward", "backward", "optimizer")
    }


def test_a_frozen_network_in_a_dataset_is_no_network_of_the_training(record) -> None:
    encoder = nn.Linear(2, 2).requires_grad_(False)
    with record() as seen:
        model = nn.Linear(2, 1)
        for batch in DataLoader(Numbers(encoder), 4):  # by hand: its calls would count steps
            model(batch).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    assert [step.complete for step in seen.steps] == [True, True]
    assert {c.node.scope for c in seen.of_type("addmm", 1)} == {"Default/network-Linear"}
    inside = {n.scope for n in seen.nodes if n.phase == "data"}
    assert "Default/data/unnamed-Linear" in inside


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 5.0, x, (x * 0).log().clamp(min=0))


def test_data_is_watched_only_when_asked_for(tmp_path: Path) -> None:
    def hits(name: str, **options: str) -> set[str]:
        with watched(tmp_path / name, watch="TO", on_hit="log", save_state="none", **options) as w:
            train(DataLoader(Numbers(Logarithm()), 4))
        return {hit.node.phase.value for hit in w.hits}

    assert hits("plain") == set()
    assert hits("asked", include="data") == {"data"}


SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader

class Half(nn.Module):
    def forward(self, x):
        return x / 2

half, model = Half(), nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
numbers = torch.arange(12.0).reshape(6, 2).unbind()
for batch in DataLoader(numbers, 2, collate_fn=lambda rows: half(torch.stack(rows))):
    model(batch).sum().backward()
    optimizer.step()
"""
CONFIG = """
{"common_dump_settings": {"op_debug_mode": 0, "dump_mode": 0, "path": "%s", "net_name": "Net",
 "iteration": "all", "saved_data": "tensor", "input_output": 0, "kernels": []},
 "e2e_dump_settings": {"enable": true, "trans_flag": true}}
"""


@pytest.mark.parametrize("included", [False, True])
def test_data_is_recorded_and_dumped_only_when_asked_for(tmp_path: Path, included: bool) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "dump.json").write_text(CONFIG % (tmp_path / "dump"))
    asked = ["--include", "data"] if included else []
    options = ["--dump", "dump.json", "--run-dir", "run", *asked]
    done = opscope("run", *options, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    net = tmp_path / "dump" / "rank_0" / "Net"
    assert {path.name for path in net.iterdir()} == ({"0", "3"} if included else {"0"})
    if included:
        assert {path.name for path in (net / "3").iterdir()} >= {"0", "1", "2"}
        assert list((net / "3" / "1").glob("div.Default_data_unnamed-Half_div-op0.*"))
    rank = open_run(tmp_path / "run").ranks[0]
    loaded = [
        node.id for node in rank.nodes.values() if node.phase == "data" and node.op_type == "div"
    ]
    rows = rank.stats(nodes=loaded)
    assert sorted(set(rows["step"].tolist())) == [0, 1, 2]

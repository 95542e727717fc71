"""Uninitialised memory: there are nodes and edges, but no value before something is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers.forked import forked_opscope as opscope
from helpers.recorder import Recorder
from opscope.capture import hook
from opscope.events import IO, Want

LIKE = torch.ones(2, 3)
MAKERS: dict[str, Callable[[], Tensor]] = {
    "empty": lambda: torch.empty(2, 3),
    "empty_like": lambda: torch.empty_like(LIKE),
    "new_empty": lambda: LIKE.new_empty(2, 3),
    "empty_strided": lambda: torch.empty_strided((2, 3), (3, 1)),
    "new_empty_strided": lambda: LIKE.new_empty_strided((2, 3), (3, 1)),
    "empty_permuted": lambda: torch.empty_permuted((2, 3), (0, 1)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_uninitialised_outputs_are_not_values(record, maker) -> None:
    with record() as seen:
        MAKERS[maker]().fill_(7.0).neg()
    made, fill = seen.calls[0], seen.one("fill_")
    assert made.outputs == {}
    assert made.node.op_type.removeprefix("new_").startswith("empty")
    assert fill.sources[0].node is made.node
    assert torch.equal(fill.outputs[0], torch.full((2, 3), 7.0))
    assert seen.one("neg").sources[0].node is fill.node


def test_no_statistics_are_taken_of_it(record) -> None:
    with record(Recorder(Want.OUTPUT_STATS)) as seen:
        torch.empty(3).fill_(1.0)
    assert [r.call.node.op_type for r in seen.rows] == ["fill_"]


def test_what_is_about_to_be_overwritten_is_not_an_input_value(record) -> None:
    with record() as seen:
        torch.empty(3).fill_(1.0)
        torch.empty(3).copy_(torch.ones(3))
    assert 0 not in seen.one("fill_").inputs
    copy = seen.one("copy_")
    assert 0 not in copy.inputs
    assert torch.equal(copy.inputs[1], torch.ones(3))


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "slice": lambda memory: memory[1:],
    "view": lambda memory: memory.view(3, 2),
    "transpose": lambda memory: memory.t(),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_it_is_not_a_value_until_written(record, view) -> None:
    with record() as seen:
        memory = torch.empty(2, 3)
        VIEWS[view](memory)
        memory.fill_(2.0)
        VIEWS[view](memory)
    before, after = [c for c in seen.calls if c.node.sources and c.node.op_type != "fill_"]
    assert 0 not in before.outputs
    assert 0 not in before.inputs
    assert set(after.outputs[0].flatten().tolist()) == {2.0}


def test_memory_for_a_gradient_copy_is_not_an_input_value(record) -> None:
    class Slice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self) -> Tensor:
            x = self.weight * 2
            x[:1].mul_(5)
            return x.sum()

    model = Slice()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        model().backward()
        optimizer.step()
    copy = next(c for c in seen.of_type("copy_") if c.sources[0].node.op_type.startswith("new_"))
    assert 0 not in copy.inputs
    assert torch.equal(copy.inputs[1], torch.ones(2))


def test_momentum_of_a_fused_optimizer_starts_without_a_value(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    batch = torch.ones(3, 2)
    with record(Recorder(Want.INPUT_STATS)) as seen:
        model(batch).sum().backward()
        optimizer.step()
    rows = [r for r in seen.rows if r.call.node.op_type == "_fused_sgd_"]
    assert {r.io for r in rows} == {IO.INPUT}
    assert [r.slot for r in rows] == [0, 1]  # the weight and its gradient


SCRIPT = """
import torch
from torch import nn

class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        room = torch.empty(4, 2)
        room[:2].copy_(self.inner(x))
        room[2:].zero_()
        return room.sum()

model = Padded()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    model(torch.ones(2, 2)).backward()
    optimizer.step()
"""


def test_a_run_says_what_was_never_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert opscope("run", "--run-dir", "run", "train.py", cwd=tmp_path).returncode == 0

    def show(node: str, *options: str) -> str:
        shown = opscope("show", "run", f"Default/network-Padded/{node}", *options, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    said = "no numbers: memory that nothing has been written to yet"
    assert show("empty-op0").count(said) == 1
    assert show("slice-op0").count(said) == 2  # the view and what it is a view of
    assert said not in show("inner-Linear/addmm-op0")
    view = json.loads(show("empty-op0", "--json"))
    assert [(value["uninitialised"], value["rows"]) for value in view["outputs"]] == [(True, [])]
    copied = json.loads(show("copy_-op0", "--json"))
    assert [value["uninitialised"] for value in copied["inputs"]] == [True, False]
    assert [value["uninitialised"] for value in copied["outputs"]] == [False]
    assert all(value["rows"] for value in copied["outputs"])


@pytest.mark.parametrize("natively", [True, False])
def test_a_view_has_numbers_in_the_steps_in_which_it_was_written(
    record, natively: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not natively:
        monkeypatch.setattr(hook, "load", lambda: None)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(Recorder(Want.OUTPUT_STATS)) as seen:
        for step in range(5):
            model(torch.ones(1, 2)).sum().backward()
            memory = torch.empty(4)
            if step % 2:
                memory.fill_(7.0)
            memory.view(2, 2)
            optimizer.step()
    rows = [r for r in seen.rows if r.call.node.op_type == "view" and r.shape == (2, 2)]
    assert [(r.call.step, r.row.max) for r in rows] == [(1, 7.0), (3, 7.0)]

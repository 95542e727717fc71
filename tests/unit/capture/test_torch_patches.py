"""What observing operators alone would misunderstand: checkpoints, pack hooks, swaps, makers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.recorder import Recorder, recording
from opscope.capture import hook
from opscope.events import Outside, Phase
from opscope.messages import forget_said


@pytest.fixture(params=["native", "python"], autouse=True)
def observer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every test is run with the native observer, if there is one, and with the mode."""
    if request.param == "python":
        monkeypatch.setattr(hook, "load", lambda: None)
    elif hook.load() is None:
        pytest.skip("there is no native observer here")
    forget_said()
    yield request.param


class Inner(nn.Module):
    """A layer whose forward is computed anew in backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(lambda x: self.layer(x).tanh(), x, use_reentrant=self.reentrant)
        return found


def train(network: nn.Module, steps: int = 2) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        network(torch.ones(2, 3, requires_grad=True)).sum().backward()
        optimizer.step()


def scopes_of(recorder: Recorder, op_type: str, phase: Phase) -> set[str]:
    return {n.scope for n in recorder.nodes if n.op_type == op_type and n.phase is phase}


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_in_the_scope_it_first_ran_in(reentrant: bool) -> None:
    with recording() as recorder:
        train(nn.Sequential(Inner(reentrant)))
    forward = scopes_of(recorder, "tanh", Phase.FORWARD)
    assert forward == {"Default/network-Sequential/0-Inner"}
    seen = {n.scope for n in recorder.nodes if n.op_type == "tanh"}
    assert seen == forward | {f"Gradients/recompute/{scope}" for scope in forward}


def test_a_checkpoint_that_raises_leaves_the_scope_as_it_was() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError("on purpose")

    with recording() as recorder:
        for reentrant in (False, True):
            with pytest.raises(ValueError, match="on purpose"):
                checkpoint(fails, torch.ones(2, requires_grad=True), use_reentrant=reentrant)
        torch.ones(2).exp()
    assert [n.scope for n in recorder.nodes if n.op_type == "exp"] == ["Default"]


def patched() -> tuple[Any, ...]:
    return (
        torch.utils.checkpoint.CheckpointFunction,
        torch.utils.swap_tensors,
        torch.compile,
        torch.frombuffer,
        torch.jit.trace,
        torch.autograd.graph.saved_tensors_hooks.__init__,
    )


def test_what_was_patched_is_put_back() -> None:
    before = patched()
    with recording():
        assert patched() != before
    assert patched() == before


@pytest.mark.parametrize("first", [True, False])
def test_operators_of_a_pack_hook_are_not_those_of_what_they_pack(first: bool) -> None:
    def pack(tensor: Tensor) -> Tensor:
        return tensor * 1  # an operator inside another

    x = torch.ones(3, requires_grad=True)
    with recording() as recorder:
        if not first:  # the first one waits until autograd has seen it
            x.neg()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            x.exp().sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.ones(3).exp())
    assert {"exp", "mul", "sum"} <= {n.op_type for n in recorder.nodes}
    backward = [n for n in recorder.nodes if n.phase is Phase.BACKWARD and n.op_type == "mul"]
    assert [n.forward.op_type for n in backward if n.forward is not None] == ["exp"]


def test_a_pack_hook_that_raises_says_so_to_the_script_alone() -> None:
    def pack(tensor: Tensor) -> Tensor:
        raise ValueError("on purpose")

    with recording() as recorder:
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
        with hooks, pytest.raises(ValueError, match="on purpose"):
            torch.ones(3, requires_grad=True).exp()
        torch.ones(3).sin()
    assert "sin" in {n.op_type for n in recorder.nodes}


def test_hooks_made_while_watched_work_afterwards() -> None:
    with recording():
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)
    x = torch.ones(3, requires_grad=True)
    with hooks:
        x.exp().sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.ones(3).exp() * 2)


def test_swapped_parameters_keep_their_names() -> None:
    network = nn.Linear(3, 3)
    with recording() as recorder:
        train(network, 1)
        weight, bias = network.weight, network.bias
        torch.utils.swap_tensors(weight, nn.Parameter(torch.zeros(3, 3)))
        assert network.weight is weight and not weight.any()
        train(network, 1)
    read = {
        source.name
        for node in recorder.nodes
        for sources in node.variants
        for source in sources
        if isinstance(source, Outside) and source.kind == "parameter"
    }
    assert {"weight", "bias"} <= read
    assert network.bias is bias


def test_a_tensor_that_no_operator_made_has_no_old_source() -> None:
    with recording() as recorder:
        for _ in range(4):
            made = torch.ones(4) + 1  # its memory may be given to the next tensor
            del made
            torch.frombuffer(np.ones(4, np.float32), dtype=torch.float32).cos()
            nn.Parameter(torch.zeros(2)).data.cos()
            torch.from_dlpack(np.ones(4, np.float32)).cos()
    sources = [s for n in recorder.nodes if n.op_type == "cos" for v in n.variants for s in v]
    assert sources
    assert all(isinstance(source, Outside) or source.node.op_type != "add" for source in sources)


def test_tracing_works_while_watched_and_watching_goes_on() -> None:
    def function(x: Tensor) -> Tensor:
        return x.sin() + 1

    with warnings.catch_warnings(), recording() as recorder:
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(function, (torch.ones(3),))
        torch.ones(3).cos()
    assert torch.equal(traced(torch.ones(3)), function(torch.ones(3)))
    assert "cos" in {n.op_type for n in recorder.nodes}


def test_compiled_code_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with recording():
        torch.compile(lambda x: x, backend="eager")
        torch.compile(lambda x: x, backend="eager")
    assert capsys.readouterr().err.count("this program uses torch.compile") == 1

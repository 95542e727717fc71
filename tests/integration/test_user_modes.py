"""The user's own modes, entered and left around ours in every order, see what they would anyway."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

from helpers.examples import one_in
from helpers.modes import LoggingMode
from helpers.recorder import Recorder, recording
from opscope.events import Want

EVERYTHING = (
    Want.INPUT_VALUES
    | Want.OUTPUT_VALUES
    | Want.INPUT_STATS
    | Want.OUTPUT_STATS
    | Want.OUTSIDE_STATS
    | Want.PARAMETERS
)
ORDERS = [
    order
    for order in itertools.permutations(("start", "enter", "stop", "exit"))
    if order.index("start") < order.index("stop") and order.index("enter") < order.index("exit")
]


class Doubling(TorchDispatchMode):
    """Changes what operators compute."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> object:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.relu.default else result


class FunctionLog(TorchFunctionMode):
    """Notes the functions of torch's Python interface that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None) -> object:
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Flops(FlopCounterMode):
    """The mode of torch, with what it counted under the name the others have."""

    def __init__(self) -> None:
        super().__init__(display=False)

    @property
    def seen(self) -> dict[str, dict[object, int]]:
        return {module: dict(counts) for module, counts in self.get_flop_counts().items()}


class Trainer:
    """Trains a step at a time and keeps every loss."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.losses: list[Tensor] = []

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(5, 3)).square().sum()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    @property
    def state(self) -> list[Tensor]:
        return [*self.losses, *(p.detach().clone() for p in self.model.parameters())]


def play(order: tuple[str, ...], mode, watched: bool) -> tuple[list[Tensor], object, Recorder]:
    """Trains a step after every event of `order`; opscope takes part only if `watched`."""
    trainer, recorder = Trainer(), Recorder(EVERYTHING)
    block = recording(recorder)
    actions = {
        "enter": mode.__enter__,
        "exit": lambda: mode.__exit__(None, None, None),
        "start": block.__enter__ if watched else lambda: None,
        "stop": (lambda: block.__exit__(None, None, None)) if watched else lambda: None,
    }
    for event in order:
        actions[event]()
        trainer.step()
    return trainer.state, mode.seen if hasattr(mode, "seen") else None, recorder


@pytest.mark.parametrize("order", one_in(3, ORDERS), ids="-".join)
@pytest.mark.parametrize("kind", [LoggingMode, Doubling, FunctionLog, Flops])
def test_modes_in_every_order(kind, order) -> None:
    state, seen, _ = play(order, kind(), watched=False)
    watched_state, watched_seen, recorder = play(order, kind(), watched=True)
    assert all(map(torch.equal, watched_state, state))
    assert watched_seen == seen
    assert _get_current_dispatch_mode_stack() == []
    assert _get_current_function_mode_stack() == []
    ended = [step for step in recorder.steps if step.complete]
    assert len(ended) == order.index("stop") - order.index("start")


@pytest.mark.parametrize("kind", [LoggingMode, FunctionLog, Flops])
def test_modes_across_steps_that_switch_capture_on_and_off(kind) -> None:
    results = []
    for watched in (False, True):
        trainer, outer, inner = Trainer(), kind(), kind()
        block = recording(Recorder(EVERYTHING), steps=lambda step: step % 2 == 0)
        if watched:
            block.__enter__()
        with outer:
            trainer.step()
            with inner:
                trainer.step()
                trainer.step()
            trainer.step()
        trainer.step()
        if watched:
            block.__exit__(None, None, None)
        results.append((trainer.state, outer.seen, inner.seen))
    (state, outer_seen, inner_seen), (watched_state, *watched_seen) = results
    assert all(map(torch.equal, watched_state, state))
    assert watched_seen == [outer_seen, inner_seen]
    assert _get_current_dispatch_mode_stack() == []


def test_flops_are_those_counted_by_hand() -> None:
    with recording(), Flops() as flops:
        trainer = Trainer()
        trainer.step()
    forward = 2 * 5 * 3 * 4 + 2 * 5 * 4 * 1
    backward = 2 * 5 * 3 * 4 + 2 * (2 * 5 * 4 * 1)
    assert flops.get_total_flops() == forward + backward


def test_what_a_mode_computes_is_what_is_recorded() -> None:
    with recording() as seen, Doubling():
        result = torch.tensor([-1.0, 2.0]).relu()
    assert result.tolist() == [0.0, 4.0]
    assert seen.one("relu").outputs[0].tolist() == [0.0, 2.0]
    assert seen.one("mul").outputs[0].tolist() == [0.0, 4.0]


def test_a_mode_that_raises_leaves_nothing_behind() -> None:
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> object:
            raise ValueError("not today")

    with recording() as seen:
        with pytest.raises(ValueError, match="not today"), Refusing():
            torch.ones(2)
        total = torch.ones(2).sum()
    assert total == 2
    assert seen.one("sum").outputs[0] == 2
    assert _get_current_dispatch_mode_stack() == []


def test_fake_tensors_are_left_alone() -> None:
    with recording() as seen:
        with FakeTensorMode():
            model = nn.Linear(3, 2)
            model(torch.ones(4, 3)).sum().backward()
        total = torch.ones(2).sum()
    assert model.weight.grad.shape == (2, 3)
    assert total == 2
    assert seen.one("sum").outputs[0] == 2


def test_meta_tensors_are_left_alone() -> None:
    model = nn.Linear(3, 2, device="meta")
    with recording():
        model(torch.ones(4, 3, device="meta")).sum().backward()
    assert model.weight.grad.shape == (2, 3)


def test_modes_given_to_other_threads_through_backward() -> None:
    """Autograd hands the caller's modes to its own threads and back: none may be lost."""

    class Reentrant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx, gradient: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = torch.ones(1, requires_grad=True)
                (inner * 3).sum().backward()
            return gradient * inner.grad

    def run() -> Tensor:
        x = start = torch.ones(1, requires_grad=True)
        for _ in range(70):  # deeper than autograd stays on one thread
            x = Reentrant.apply(x * 0.4)
        with LoggingMode() as log:
            x.sum().backward()
        assert len(log.seen) > 70
        return start.grad

    expected = run()
    with recording():
        assert torch.equal(run(), expected)
    assert _get_current_dispatch_mode_stack() == []

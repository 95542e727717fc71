"""More small programs: modes, subclasses, hooks, threads and memory used in unusual ways.

`PROGRAMS` has them together with those of `hook_programs`.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.hook_programs import PROGRAMS as PROGRAMS
from helpers.hook_programs import STEPS, fit, program, seeded


class Counting(TorchDispatchMode):
    """A dispatch mode of the user's own, which computes something itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.relu.default:
            result = result * 2
        return result


class Renaming(TorchFunctionMode):
    """A function mode that replaces one function by another."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tanh:
            func = torch.sigmoid
        return func(*args, **(kwargs or {}))


@program
def user_modes() -> list[float]:
    seeded()
    layer = nn.Linear(3, 3)
    mode = Counting()

    def loss_of(step: int) -> Tensor:
        x = layer(torch.ones(2, 3))
        with mode:
            x = torch.relu(x) + 0.1
        with Renaming():
            x = torch.tanh(x)
        if step == 2:
            with Counting(), Renaming():
                x = x * torch.tanh(x)
        return x.square().sum()

    return [*fit(layer.parameters(), loss_of), float(len(mode.seen))]


class Tagged(Tensor):
    """A subclass that holds its data and only has a name."""


class Wrapped(Tensor):
    """A subclass that stands for another tensor."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made: Wrapped = Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def bare(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapped) else value

        out = func(*(bare(arg) for arg in args), **(kwargs or {}))
        return Wrapped(out) if isinstance(out, Tensor) else out


@program
def subclasses() -> list[float]:
    seeded()
    layer = nn.Linear(3, 3)

    def loss_of(step: int) -> Tensor:
        x = layer(torch.ones(2, 3)).as_subclass(Tagged)
        x = (x * 2).sin()
        side = Wrapped(torch.full((2, 3), 2.0)) * 3.0
        return x.as_subclass(Tensor).sum() + (side.inner * x.as_subclass(Tensor)).sum()

    return fit(layer.parameters(), loss_of)


@program
def saved_tensors() -> list[float]:
    """Hooks that pack what autograd saves, with operators in them."""
    seeded()
    model = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 1))

    def loss_of(step: int) -> Tensor:
        pack = torch.autograd.graph.saved_tensors_hooks(
            lambda t: t.double() * 1.0, lambda t: t.float()
        )
        with pack:
            hidden = model(torch.ones(2, 3)).square()
        with torch.autograd.graph.save_on_cpu():
            return (hidden.exp() * model(torch.ones(1, 3))).sum()

    return fit(model.parameters(), loss_of)


@program
def caught_errors() -> list[float]:
    """Operators that raise now and then, among them one that writes to a parameter."""
    seeded()
    layer = nn.Linear(3, 3)
    caught: list[float] = []

    def loss_of(step: int) -> Tensor:
        x = layer(torch.ones(2, 3))
        for other in (torch.ones(2, 3), torch.ones(4, 4)):
            with contextlib.suppress(RuntimeError):
                x = x + other
                caught.append(1.0)
        with contextlib.suppress(RuntimeError), torch.no_grad():
            layer.bias.mul_(torch.ones(5 if step < 2 else 3) * 0.9)
        with contextlib.suppress(RuntimeError):
            x = x @ torch.ones(3 + (step == 3), 2)
        return x.square().sum()

    return fit(layer.parameters(), loss_of) + caught


@program
def threads_in_turns() -> list[float]:
    """Two trainings in two threads, one operator at a time, then one alone."""
    seeded()
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    optimizers = [torch.optim.SGD(model.parameters(), 0.05) for model in models]
    losses: dict[int, list[float]] = {0: [], 1: []}

    def step(number: int) -> None:
        optimizers[number].zero_grad()
        loss = models[number](torch.full((2, 3), 1.0 + number)).square().sum()
        loss.backward()
        optimizers[number].step()
        losses[number].append(loss.item())

    for _ in range(STEPS):
        for number in (0, 1):
            thread = threading.Thread(target=step, args=(number,))
            thread.start()
            thread.join()
    return losses[0] + losses[1]


@program
def scaled() -> list[float]:
    """A gradient scaler on the CPU, with a step that overflows."""
    seeded()
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = layer(torch.ones(2, 3)).float().square().sum()
        if step == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(scaler.get_scale())
    return losses


@program
def copied_model() -> list[float]:
    """Deep copies of a model on the way: an average, and one that is trained and thrown away."""
    seeded()
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    average = copy.deepcopy(model)

    def loss_of(step: int) -> Tensor:
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.1)
        learner = copy.deepcopy(model)
        inner = learner(torch.randn(4, 3)).square().sum()
        for p, g in zip(
            learner.parameters(),
            torch.autograd.grad(inner, list(learner.parameters())),
            strict=True,
        ):
            p.data.sub_(0.01 * g)
        return model(torch.randn(4, 3)).sub(learner(torch.ones(4, 3)).detach()).square().sum()

    return fit(model.parameters(), loss_of, torch.optim.Adam)


class Switching(nn.Module):
    """Another path, other shapes and another number of rounds in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        for number in range(1 + self.step % 3):
            layer = self.layers[(number + self.step) % 3]
            x = layer(x) if number % 2 else layer(x).relu()
        return x.sum() if self.step % 2 else x.mean()


@program
def changing_program() -> list[float]:
    seeded()
    model = Switching()

    def loss_of(step: int) -> Tensor:
        return model(torch.full((2 + step, 3), 0.5)).square()

    return fit(model.parameters(), loss_of, torch.optim.Adam)


@program
def growing_lists() -> list[float]:
    """Operators on lists that get longer, and parameters that come later."""
    seeded()
    parameters = [nn.Parameter(torch.full((2,), float(n + 1))) for n in range(5)]

    def loss_of(step: int) -> Tensor:
        used = parameters[: 2 + step]
        with torch.no_grad():
            torch._foreach_mul_(used, 0.5)
            torch._foreach_addcmul_(used, [torch.ones(2)] * len(used), [torch.ones(2)] * len(used))
        norms = torch._foreach_norm([p.detach() for p in used])
        return torch.cat(used).square().sum() + torch.stack(norms).sum()

    return fit(parameters, loss_of)


@program
def storage_games() -> list[float]:
    """`set_`, `resize_`, `out=`, swapped `.data`, NumPy, DLPack and detached aliases."""
    seeded()
    weight = nn.Parameter(torch.ones(4))

    def loss_of(step: int) -> Tensor:
        x = weight * 2.0
        target = torch.empty(4)
        torch.add(x.detach(), 1.0, out=target)
        torch.mul(target, 2.0, out=target)
        view = torch.empty(0).set_(target.detach())
        view.add_(1.0)
        grown = torch.empty(0).resize_(4).fill_(3.0)
        array = torch.from_numpy(np.full(4, 2.0, np.float32))
        shared = torch.from_dlpack(array)
        shared.mul_(2.0)
        weight.data = weight.data * 0.5
        with torch.no_grad():
            weight.copy_(weight * 2.0)
        return (x * target + grown * array + weight + view).sum()

    return fit([weight], loss_of)


@program
def observers_inside() -> list[float]:
    """A profiler that begins and ends while operators are under way, and operators that raise."""
    seeded()
    model = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 1))
    activities = [torch.profiler.ProfilerActivity.CPU]
    profilers: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        packed[0] += 1
        if packed[0] == 2:
            profilers.append(torch.profiler.profile(activities=activities))
            profilers[-1].start()
        elif packed[0] == 4:
            profilers[-1].stop()
        return tensor * 1.0

    def loss_of(step: int) -> Tensor:
        packed[0] = 0
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = model(torch.ones(2, 3)).square().exp().sum()
        with contextlib.suppress(RuntimeError):
            torch.nn.functional.linear(torch.ones(2, 3), torch.ones(2, 2))
        return loss + packed[0]

    packed = [0]
    return fit(model.parameters(), loss_of)


@program
def recreated_models() -> list[float]:
    """A new model in every step, with other names at other addresses."""
    seeded()
    fixed = nn.Linear(3, 3)
    outer = torch.optim.SGD(fixed.parameters(), 0.05)
    losses = []
    for step in range(STEPS + 2):
        names = ["left", "right", "middle"]
        names = names[step % 3 :] + names[: step % 3]
        inner = nn.ModuleDict({name: nn.Linear(3, 3) for name in names})
        optimizer = torch.optim.SGD(inner.parameters(), 0.1)
        outer.zero_grad()
        x = fixed(torch.ones(2, 3))
        for layer in inner.values():
            x = layer(x)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        outer.step()
        losses.append(loss.item())
        del inner, optimizer, layer, x
    return losses


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@program
def grad_modes() -> list[float]:
    """Modes of autograd that change within a step."""
    seeded()
    layer = nn.Linear(3, 3)

    def loss_of(step: int) -> Tensor:
        x = torch.ones(2, 3)
        for mode in (nothing, torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                y = layer(x)
                y = y.clone().mul_(2.0)
        with torch.no_grad(), torch.enable_grad():
            z = layer(x)
        return (y + z).sum()

    return fit(layer.parameters(), loss_of)

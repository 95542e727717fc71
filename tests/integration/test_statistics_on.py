"""Training with statistics of every operator: it stays the same, and rows are right.

A row may be taken over from an earlier one of the same elements. It must never be stale, whichever
way the memory was written to in between.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers import twice
from helpers.models import MODELS, Trained, assert_identical
from helpers.recorder import Recorder
from helpers.twice import Facts, capturing, watch
from opscope.messages import forget_said
from opscope.stats.numpy_stats import row_of
from opscope.stats.torch_values import to_numpy

pytestmark = pytest.mark.usefixtures("few_objects")

each_path = pytest.mark.parametrize(
    "native",
    [
        pytest.param(
            True,
            marks=twice.needs_hook,
        ),
        False,
    ],
    ids=["hook", "python"],
)

# ------------------------------------------------------------------------------------- bit-identity


@functools.cache
def plain(train: Callable[[], Trained]) -> Trained:
    return train()


@each_path
@pytest.mark.parametrize("train", MODELS, ids=lambda train: train.__name__)
def test_training_is_the_same_bit_by_bit(train, native, capsys) -> None:
    forget_said()
    expected = plain(train)
    facts = watch(train, native)
    assert_identical(expected, facts.result)
    assert [step.number for step in facts.steps if step.complete] == [*range(expected.steps)]
    assert len(facts.rows) > 100
    if native:
        assert facts.counts[-1][0] > facts.counts[0][0]
    assert "internal error" not in capsys.readouterr().err


# ----------------------------------------------------------------------------------- rows are right

WAYS: dict[str, Callable[[nn.Module], Any]] = {}
BUGS: dict[tuple[str, bool], str] = {}
"""What is known to go wrong: a way, with the hook or without, and why."""


def way(hook: str = "", python: str = "") -> Callable[[Any], Any]:
    """A way to write to memory; what is known to go wrong with the hook and without."""

    def add(function: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Any]:
        WAYS[function.__name__] = function
        for native, reason in ((True, hook), (False, python)):
            if reason:
                BUGS[function.__name__, native] = reason
        return function

    return add


def read(*tensors: Tensor) -> None:
    """Reads tensors as they are, as views of the same elements, and twice."""
    with torch.no_grad():
        for tensor in tensors:
            (tensor + 1).sum()
            tensor.reshape(-1).sum()
            (tensor.unsqueeze(0).squeeze(0) * 2.0).mean()
            tensor.t().sum()


class Model(nn.Module):
    """A parameter, a buffer with the same memory, and a step that somebody else writes."""

    def __init__(self, change: Callable[[Model], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 4.0]]))
        self.register_buffer("same", self.weight.detach())
        self.register_buffer("own", torch.full((2, 2), 2.0))
        self.change = change

    def forward(self) -> Tensor:
        self.change(self)
        return (self.weight * 1.5).sum()


def train(name: str) -> list[float]:
    torch.manual_seed(3)
    model = Model(WAYS[name])
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@way()
def through_a_view(model: Model) -> None:
    x = model.weight * 1.0
    read(x)
    x[1].mul_(3.0)
    read(x)
    x.view(-1)[:2].add_(1.0)
    read(x, x[0:2])


@way()
def through_the_base(model: Model) -> None:
    x = model.weight * 1.0
    part, flat = x[0:2], x.view(-1)
    read(part)
    flat.sum()
    x.mul_(2.0)
    read(part)
    flat.sum()
    flat.add_(1.0)
    read(x, part)


@way()
def through_data(model: Model) -> None:
    x = model.weight * 1.0
    read(x, model.weight, model.own)
    x.data.mul_(3.0)
    model.weight.data.mul_(0.5)
    model.own.data.add_(1.0)
    read(x, model.weight, model.own)
    x.data[0] = 7.0
    model.weight.data.clamp_(-0.5, 0.5)
    read(x, model.weight)


@way()
def through_out(model: Model) -> None:
    x = model.weight.detach() * 1.0
    flat = x.view(-1)
    read(x)
    torch.mul(x, 2.0, out=x)
    read(x)
    torch.add(flat, 1.0, out=flat)
    read(x)
    torch.sort(flat, out=(flat, torch.empty(0, dtype=torch.int64)))
    read(x)
    torch.mul(x, 3.0, out=model.own)
    read(model.own)


@way()
def through_foreach(model: Model) -> None:
    x = model.weight.detach() * 1.0
    top = x[0:1]
    read(x, model.weight, top)
    with torch.no_grad():
        torch._foreach_mul_([x, model.weight], 2.0)
    read(x, model.weight, top)
    torch._foreach_copy_([top], [torch.ones(1, 2)])
    read(x, top)


@way()
def through_copy(model: Model) -> None:
    x = model.weight.detach() * 1.0
    turned = x.t()
    read(x, model.weight, turned)
    x.copy_(torch.full((2, 2), 5.0))
    with torch.no_grad():
        model.weight.copy_(x * 0.25)
    model.own.copy_(x)
    read(x, model.weight, turned, model.own)


@way()
def after_detach(model: Model) -> None:
    x = model.weight * 1.0
    one, other = x.detach(), model.weight.detach()
    read(x, one, model.weight, other)
    one.add_(2.0)
    other.mul_(0.5)
    read(x, one, model.weight, other)


@way()
def by_indices(model: Model) -> None:
    x = model.weight.detach() * 1.0
    read(x)
    x[torch.tensor([0])] = 4.0
    read(x)
    x[x > 3] = 0.0
    read(x)
    x.index_add_(0, torch.tensor([1]), torch.ones(1, 2)).scatter_(0, torch.tensor([[0, 1]]), 7.0)
    x.masked_fill_(torch.tensor([[True, False]]), 9.0)
    read(x)


@way()
def by_random_numbers(model: Model) -> None:
    x = model.weight.detach() * 1.0
    for write in (x.uniform_, x.normal_, x.bernoulli_, lambda: torch.randn(2, 2, out=x)):
        read(x)
        write()
    read(x)


@way()
def through_other_types(model: Model) -> None:
    x = model.weight.detach() * 1.0
    whole = x.view(torch.int32)
    read(x, whole)
    whole.zero_()
    read(x, whole)
    z = torch.complex(x + 1.0, x)
    real, imaginary = torch.view_as_real(z), z.imag
    (z * 1.0).abs().sum()
    real.mul_(2.0)
    (z * 1.0).abs().sum()
    imaginary.fill_(3.0)
    (z * 1.0).abs().sum()
    real.sum()


@way()
def by_resizing(model: Model) -> None:
    x = torch.empty(0)
    for number in (4, 2, 4, 8):
        x.resize_(2, number // 2).fill_(float(number))
        x.add_(0.5).sum()
        x.sum()


@way()
def by_replacing_data(model: Model) -> None:
    read(model.weight)
    model.weight.data = model.weight.data * 2
    model.weight.data = model.weight.data * 2
    read(model.weight)
    model.weight.data = torch.full((2, 2), 3.0)
    read(model.weight)
    model.weight.data.set_(torch.full((2, 2), 0.5))
    read(model.weight)


@way()
def expanded(model: Model) -> None:
    x = model.weight.detach() * 1.0
    wide, row = x[:, :1].expand(2, 2), x.select(0, 0)
    read(x, wide)
    row.sum()
    x[:, 0].add_(1.0)
    read(x, wide)
    row.sum()


@way()
def swapped(model: Model) -> None:
    x, y = torch.full((2, 2), 2.0), torch.full((2, 2), 3.0)
    read(x, y)
    torch.utils.swap_tensors(x, y)
    read(x, y)


@way()
def twice_in_one_call(model: Model) -> None:
    weight = model.weight
    (weight * weight).sum()
    torch.addcmul(weight, weight, weight).sum()
    torch.cat([weight, weight, model.own, model.own]).sum()
    with torch.no_grad():
        torch.maximum(model.own, model.own, out=model.own)


@way()
def by_set(model: Model) -> None:
    x = model.weight.detach() * 1.0
    y = torch.empty(0).set_(x)
    read(x, y)
    y.mul_(3.0)
    read(x, y)
    x.add_(1.0)
    read(x, y)


@way()
def by_set_to_a_storage(model: Model) -> None:
    x = model.weight.detach() * 1.0
    y = torch.empty(0).set_(x.untyped_storage(), 0, (2, 2))
    read(x, y)
    y.mul_(3.0)
    read(x, y)


@way()
def by_storage(model: Model) -> None:
    x = model.weight.detach() * 1.0
    read(x)
    x.untyped_storage().copy_(torch.full((4,), 9.0).untyped_storage())
    read(x)


@way()
def by_sharing_data(model: Model) -> None:
    x = model.weight.detach() * 1.0
    read(x)
    model.weight.data = x
    with torch.no_grad():
        model.weight.mul_(2.0)
    read(model.weight, x)


@way()
def by_a_named_alias(model: Model) -> None:
    read(model.weight, model.same)
    with torch.no_grad():
        model.weight.mul_(0.9)
    read(model.weight, model.same)
    model.same.mul_(1.1)
    read(model.weight, model.same)


@way()
def by_dlpack(model: Model) -> None:
    x = model.weight.detach() * 1.0
    y = torch.from_dlpack(x)
    read(x, y)
    y.mul_(2.0)
    read(x, y)
    x.add_(1.0)
    read(x, y)


@way()
def of_a_buffer_from_outside(model: Model) -> None:
    memory = bytearray(np.ones(4, np.float32).tobytes())
    x, y = (torch.frombuffer(memory, dtype=torch.float32).data for _ in range(2))
    for _ in range(2):
        (x + 1.0).sum()
        (y + 1.0).sum()
        memory[:] = np.full(4, 5.0, np.float32).tobytes()


NUMPY = "NumPy writes to a tensor's memory without an operator: that cannot be seen"


@way(hook=NUMPY, python=NUMPY)
def by_numpy(model: Model) -> None:
    x = model.weight.detach() * 1.0
    read(x, model.weight)
    x.numpy()[:] = 4.0
    model.weight.data.numpy()[:] *= 2.0
    read(x, model.weight)


@way(hook=NUMPY, python=NUMPY)
def from_numpy(model: Model) -> None:
    array = np.ones((2, 2), np.float32)
    x = torch.from_numpy(array)[:]
    read(x)
    array[:] = 4.0
    read(x)


def recorded_values(name: str, native: bool) -> dict[tuple[Any, ...], Tensor]:
    """Copies of all values, by where they occurred."""
    recorder = Recorder()
    with capturing(recorder, native):
        train(name)
    return {
        (seen.step, seen.index, seen.node.name, io, slot): tensor
        for seen in recorder.calls
        for io, found in (("input", seen.inputs), ("output", seen.outputs))
        for slot, tensor in found.items()
    }


def cases() -> list[Any]:
    marked = []
    for name in WAYS:
        for native in (True, False):
            reason = BUGS.get((name, native))
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            if native and not twice.hook_is_there():
                marks = [pytest.mark.skip(reason="the native hook is not built")]
            marked.append(
                pytest.param(
                    name, native, marks=marks, id=f"{name}-{'python' if not native else 'hook'}"
                )
            )
    return marked


@pytest.mark.parametrize(("name", "native"), cases())
def test_rows_are_those_of_the_values(name, native) -> None:
    expected = train(name)
    values = recorded_values(name, native)
    facts = watch(lambda: train(name), native)
    assert facts.result == expected
    if native:
        assert facts.native_share() > 0.9
    assert_rows_of_values(facts, values)


def assert_rows_of_values(facts: Facts, values: dict[tuple[Any, ...], Tensor]) -> None:
    """Every row is that of the recorded value in float64, and every value has one."""
    assert {place[:5] for place in facts.rows} == values.keys()
    for place, row in facts.rows.items():
        step, _, name, io, *_ = place
        if step == 0 and io == "input" and "fill_" in name:
            continue  # memory that nothing was written to
        if "resize_" in name or (io == "input" and "fill_-op" in name):
            continue
        value = values[place[:5]]
        assert (str(value.dtype).removeprefix("torch."), tuple(value.shape)) == place[5:]
        array = to_numpy(value)
        if value.is_floating_point():
            array = array.astype(np.float64)
        twice.assert_same_row(row, row_of(array), place, place[5])


@each_path
def test_what_numpy_writes_is_seen_in_the_next_step(native) -> None:
    """Within a step rows of unchanged tensors are used again; across steps they never are."""
    weight = nn.Parameter(torch.ones(3))
    held = weight.data.numpy()

    def run() -> None:
        optimizer = torch.optim.SGD([weight], 0.0)
        for step in range(4):
            held[:] = 1.0 + step
            optimizer.zero_grad()
            (weight * 1.0).sum().backward()
            optimizer.step()

    rows = watch(run, native).rows
    seen = [row.max for place, row in rows.items() if place[2:4] == ("Default/mul-op0", "input")]
    assert seen == [1.0, 2.0, 3.0, 4.0]


@each_path
def test_watching_does_not_keep_memory_from_being_resized(native) -> None:
    def run() -> float:
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(3):
            x = torch.ones(2) * 2
            x.untyped_storage().resize_(0)  # as sharded training does
            x.untyped_storage().resize_(8)
            (weight * x.fill_(1.0).sum()).sum().backward()
            optimizer.step()
        return weight.sum().item()

    assert watch(run, native).result == run()

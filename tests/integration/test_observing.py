"""Observing changes nothing: what programs compute, see and patch is what it is without opscope."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacfwd, jvp, vmap

from helpers.engines import needs_observer
from helpers.modes import LoggingMode
from helpers.recorder import Recorder, recording
from opscope.events import Want
from opscope.read.run import open_run

EVERYTHING = Want.INPUT_STATS | Want.OUTPUT_STATS | Want.OUTSIDE_STATS
DOUBLY = {
    "abs": torch.abs,
    "l1_loss": lambda x: nn.functional.l1_loss(x, torch.ones_like(x)),
    "renorm": lambda x: torch.renorm(x, 2, 0, 0.5),
    "norm": lambda x: torch.linalg.norm(x, 1),
    "eigh": lambda x: torch.linalg.eigh(x @ x.mT).eigenvalues,
    "i0e": torch.special.i0e,
    "i1e": torch.special.i1e,
    "sgn": torch.sgn,
}


def watched(program: Callable[[], Any], recorder: Recorder | None = None) -> Any:
    """What the program returns in its third run under capture, when its call sites are known."""
    with recording(recorder or Recorder(EVERYTHING)):
        for _ in range(3):
            torch.manual_seed(1)
            result = program()
    return result


def plain(program: Callable[[], Any]) -> Any:
    torch.manual_seed(1)
    return program()


def same(one: Any, other: Any) -> bool:
    """Bit by bit."""
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(
            torch.view_as_real(one) if one.is_complex() else one,
            torch.view_as_real(other) if other.is_complex() else other,
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


# --------------------------------------------------------------------------- tensors without memory


def test_the_gradient_of_sgn_is_a_tensor_without_memory(capsys) -> None:
    def program() -> Tensor:
        x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
        torch.sgn(x).sum().backward()
        return x.grad

    assert same(watched(program), plain(program))
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("name", DOUBLY)
def test_gradient_penalties(name, capsys) -> None:
    def program() -> list[Tensor]:
        x = torch.randn(3, 3, requires_grad=True)
        (first,) = torch.autograd.grad(DOUBLY[name](x).sum(), x, create_graph=True)
        if not first.requires_grad:
            return [first]
        return [first, torch.autograd.grad(first.square().sum(), x, allow_unused=True)[0]]

    expected, found = plain(program), watched(program)
    pairs = zip(found, expected, strict=True)
    assert all(one is other is None or same(one, other) for one, other in pairs)
    assert "internal error" not in capsys.readouterr().err


def test_rows_of_tensors_without_memory_are_of_zeros() -> None:
    recorder = Recorder(EVERYTHING)
    x = torch.tensor([-1.0, 3.0], requires_grad=True)
    with recording(recorder):
        torch.sgn(x).sum().backward()
    zeros = [row for row in recorder.rows if "_efficientzerotensor" in row.call.node.name]
    assert zeros
    assert all(row.row.zero == row.row.count == 2 for row in zeros)


@pytest.mark.parametrize("transform", [jvp, jacfwd, hessian], ids=["jvp", "jacfwd", "hessian"])
def test_forward_mode_and_second_derivatives(transform, capsys) -> None:
    def function(x: Tensor) -> Tensor:
        return (x.sgn() * x.abs().sqrt() + x**3).sum()

    def program() -> Any:
        x = torch.randn(4)
        return jvp(function, (x,), (x,)) if transform is jvp else transform(function)(x)

    assert same(watched(program), plain(program))
    assert "internal error" not in capsys.readouterr().err


# --------------------------------------------------------------------------- complex numbers


def complex_matrix() -> Tensor:
    return torch.randn(4, 4, dtype=torch.complex64)


COMPLEX: dict[str, Callable[[], Any]] = {
    "pinv": lambda: torch.linalg.pinv(complex_matrix()),
    "matrix_rank_out": lambda: torch.linalg.matrix_rank(
        complex_matrix(), out=torch.full((), 7, dtype=torch.int64)
    ),
    "conj_product": lambda: complex_matrix().conj() * complex_matrix(),
    "neg_view": lambda: complex_matrix().conj().imag * 2.0,
}


@needs_observer
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_results_are_the_plain_ones(name, capsys) -> None:
    program = COMPLEX[name]
    assert same(watched(program), plain(program))
    assert "internal error" not in capsys.readouterr().err


def test_gradients_of_complex_lstsq() -> None:
    def program() -> list[Tensor]:
        a, b = (torch.randn(4, 3, dtype=torch.complex64, requires_grad=True) for _ in range(2))
        torch.linalg.lstsq(a, b).solution.abs().sum().backward()
        return [a.grad, b.grad]

    for found, expected in zip(watched(program), plain(program), strict=True):
        torch.testing.assert_close(found, expected)  # two plain runs differ in the last bits


@needs_observer
def test_gradients_of_median_and_prod() -> None:
    def program() -> list[Tensor]:
        x = torch.randn(9, requires_grad=True)
        x.prod().backward()
        y = torch.randn(9, requires_grad=True)
        y.median().backward()
        return [x.grad, y.grad]

    assert same(watched(program), plain(program))


def test_a_custom_operator_that_conjugates() -> None:
    @torch.library.custom_op("opscope_tests::conj_times", mutates_args=())
    def conj_times(a: Tensor, b: Tensor) -> Tensor:
        return a.conj() * b

    def program() -> Tensor:
        return conj_times(complex_matrix(), complex_matrix())

    assert same(watched(program), plain(program))


# --------------------------------------------------------------------------- what scripts put there


def calls_counted(run: Callable[[], None]) -> int:
    """How many module calls a patch of the user's sees."""
    count = 0
    original = nn.Module.__call__

    def counting(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return original(self, *args, **kwargs)

    nn.Module.__call__ = counting  # type: ignore[method-assign]
    try:
        run()
    finally:
        nn.Module.__call__ = original  # type: ignore[method-assign]
    return count


def forwards(times: int = 4) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(times):
        model(torch.ones(2, 2)).sum().backward()
        optimizer.step()


def test_a_patch_of_module_calls_made_under_capture_sees_all_of_them() -> None:
    assert calls_counted(forwards) == 16
    for steps in (lambda step: True, lambda step: step == 1):
        with recording(steps=steps):
            assert calls_counted(forwards) == 16


def test_a_patch_that_outlives_the_capture_stays() -> None:
    plain_call, seen = nn.Module.__call__, []
    block = recording()
    block.__enter__()
    watching = nn.Module.__call__

    def noting(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        seen.append(type(self).__name__)
        return watching(self, *args, **kwargs)

    nn.Module.__call__ = noting  # type: ignore[method-assign]
    try:
        block.__exit__(None, None, None)
        assert nn.Module.__call__ is noting
        forwards(1)
        assert len(seen) == 4
        with recording() as again:
            forwards(1)
        assert len(seen) == 8
        assert again.of_type("addmm")[0].node.scope == "Default/network-Sequential/0-Linear"
        assert nn.Module.__call__ is noting
    finally:
        nn.Module.__call__ = plain_call  # type: ignore[method-assign]


def test_a_patch_from_before_the_capture_stays_in_use() -> None:
    def run() -> None:
        with recording() as seen:
            forwards()
        assert seen.of_type("addmm")[0].node.scope == "Default/network-Sequential/0-Linear"

    assert calls_counted(run) == 16


class Counted(Tensor):
    """A tensor class that notes what is done with it."""

    seen: list[str]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


def with_a_tensor_class() -> list[str]:
    Counted.seen = []
    model = nn.Linear(3, 2)
    model.weight = nn.Parameter(model.weight.detach().as_subclass(Counted))
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for _ in range(3):
        batch = torch.ones(2, 3).as_subclass(Counted)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return list(Counted.seen)


def test_a_tensor_class_sees_the_calls_of_the_program_only() -> None:
    expected = with_a_tensor_class()
    with recording(Recorder(EVERYTHING)):
        assert with_a_tensor_class() == expected
    with recording():
        assert with_a_tensor_class() == expected


def test_swapped_parameters_keep_their_names() -> None:
    with recording() as seen:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            other = nn.Parameter(model.weight.detach() * 2)
            model.weight.grad = None
            torch.utils.swap_tensors(model.weight, other)
    for step in range(3):
        updates = seen.of_type("add_", step, "optimizer")
        assert [call.node.parameter for call in updates] == ["weight", "bias"]


@needs_observer
def test_a_mode_of_the_script_sees_what_it_saw() -> None:
    def program() -> list[str]:
        with LoggingMode() as log:
            forwards(2)
        return log.seen

    expected = program()
    with recording(Recorder(EVERYTHING)):
        assert program() == expected


@needs_observer
def test_tensors_get_no_python_objects_that_the_script_did_not_ask_for() -> None:
    """Autograd adds in place where nobody else holds a gradient: also in the first step."""
    with recording(Recorder(EVERYTHING)) as seen:
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(2):
            y = weight * 2
            (y.tanh() + y.sigmoid()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for step in seen.steps[:2]:
        names = [node.name for nodes in step.orders.values() for node in nodes]
        backward = [name for name in names if name.startswith("Gradients/")]
        assert [name for name in backward if "/add" in name] == ["Gradients/Default/add_-op0"]


# --------------------------------------------------------------------------- wrapped tensors


def test_per_sample_gradients_of_a_module(capsys) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(model, weights, (row[None],)).square().sum()

    def program() -> list[Tensor]:
        per_sample = vmap(grad(loss), in_dims=(None, 0))(weights, torch.randn(5, 3))
        return list(per_sample.values())

    assert same(watched(program), plain(program))
    assert "internal error" not in capsys.readouterr().err


def test_tensors_of_other_kinds_have_no_numbers_and_do_no_harm(capsys) -> None:
    def program() -> list[Tensor]:
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2
        jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        sparse = torch.eye(3).to_sparse() * 2
        quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        many = torch.ones([1] * 64) + 1
        return [
            *nested.unbind(),
            *(jagged * 3).unbind(),
            sparse.to_dense(),
            quantized.dequantize(),
            many.flatten(),
            torch.empty(2, device="meta").new_ones(2, device="cpu"),
        ]

    assert same(watched(program), plain(program))
    assert "internal error" not in capsys.readouterr().err


# --------------------------------------------------------------------------- processes

COMPILED = """
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    loss = compiled(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
print(counters["stats"]["unique_graphs"], counters["frames"]["total"])
"""


def output_of(*command: str, cwd: Path) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


@pytest.mark.long
@needs_observer
def test_compiled_code_is_not_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPILED)
    expected, _ = output_of("train.py", cwd=tmp_path)
    found, said = output_of(
        "-m", "opscope", "run", "--run-dir", "run", "--steps", "0-1|3", "train.py", cwd=tmp_path
    )
    assert found == expected
    assert "internal error" not in said
    names = [node.name for node in open_run(tmp_path / "run").rank(0).nodes.values()]
    assert not [name for name in names if "OptimizedModule" in name]
    assert [name for name in names if "optimizer-SGD" in name]

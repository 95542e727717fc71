"""Cases in which watching has been, or may be, most visible: each a small program of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from peers.cases import Case, Outcome, as_forward, attempt

_programs: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    """One of the programs; returns a tree of tensors."""
    _programs[function.__name__] = function
    return function


def names() -> list[str]:
    """All programs."""
    return list(_programs)


def cases(name: str) -> list[Case]:
    """A program as a case."""

    def run(_: Any) -> Outcome:
        outcome: Outcome = {}
        attempt(outcome, "result", _programs[name])
        return outcome

    return [Case("program", lambda: None, run, ("result",))]


def _leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def _second(function: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    """The result, its gradient, and the gradient of that."""
    result = as_forward(lambda: function(x))
    (slope,) = torch.autograd.grad(result.abs().sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.abs().square().sum(), x, allow_unused=True)
    return result, slope, bend


@program
def sgn_backward() -> Any:
    x = _leaf(3, 4)
    torch.sgn(x).sum().backward()
    return x.grad


@program
def complex_sgn_backward() -> Any:
    x = _leaf(3, 4, dtype=torch.complex64)
    torch.sgn(x).abs().sum().backward()
    return x.grad


@program
def abs_twice() -> Any:
    return _second(torch.abs, _leaf(3, 4)), _second(torch.abs, _leaf(5, dtype=torch.complex64))


@program
def l1_loss_twice() -> Any:
    target = torch.randn(3, 4)
    return _second(lambda x: F.l1_loss(x.tanh(), target), _leaf(3, 4))


@program
def smooth_l1_loss_twice() -> Any:
    target = torch.randn(3, 4)
    return _second(lambda x: F.smooth_l1_loss(x.tanh(), target), _leaf(3, 4))


@program
def renorm_twice() -> Any:
    return [_second(lambda x, p=p: torch.renorm(x, p, 0, 1.0), _leaf(3, 4)) for p in (1, 2, 3)]


@program
def linalg_norms_twice() -> Any:
    orders: tuple[Any, ...] = (None, "fro", "nuc", 1, -1, 2, -2, float("inf"))
    return [_second(lambda x, o=o: torch.linalg.norm(x, o), _leaf(3, 4)) for o in orders]


@program
def vector_norms_twice() -> Any:
    orders = (0, 0.5, 1, 2, 3, float("inf"), -float("inf"))
    return [_second(lambda x, o=o: torch.linalg.vector_norm(x, o), _leaf(6)) for o in orders]


@program
def eigh_twice() -> Any:
    def values(x: Tensor) -> Tensor:
        found, vectors = torch.linalg.eigh(x + x.mH)
        return found.sum() + vectors.abs().sum()

    return _second(values, _leaf(4, 4)), _second(values, _leaf(3, 3, dtype=torch.complex64))


@program
def bessel_twice() -> Any:
    functions = (torch.special.i0, torch.special.i0e, torch.special.i1, torch.special.i1e)
    return [_second(function, _leaf(6)) for function in functions]


@program
def func_jvp() -> Any:
    x, along = torch.randn(4), torch.randn(4)
    functions = (torch.sin, torch.abs, torch.sgn, lambda t: t.softmax(0), lambda t: t.norm())
    return [jvp(function, (x,), (along,)) for function in functions]


@program
def func_jacobians() -> Any:
    x = torch.randn(4)

    def function(t: Tensor) -> Tensor:
        return (t.sin() * t.roll(1)).cumsum(0)

    return jacfwd(function)(x), jacrev(function)(x), vjp(function, x)[1](torch.ones(4))


@program
def func_hessian() -> Any:
    x = torch.randn(4)
    return [
        hessian(lambda t: t.pow(3).sum() * t.exp().mean())(x),
        hessian(lambda t: t.abs().norm())(x),
        jacfwd(jacfwd(lambda t: t.tanh().prod()))(x),
    ]


@program
def complex_pinv() -> Any:
    x = _leaf(4, 3, dtype=torch.complex64)
    return _second(torch.linalg.pinv, x)


@program
def lstsq_gradients() -> Any:
    a, b = _leaf(5, 3), _leaf(5, 2)
    found = as_forward(lambda: torch.linalg.lstsq(a, b).solution)
    found.sum().backward()
    c, d = _leaf(4, 2, dtype=torch.complex64), _leaf(4, 2, dtype=torch.complex64)
    torch.linalg.lstsq(c, d).solution.abs().sum().backward()
    return found, a.grad, b.grad, c.grad, d.grad


@functools.cache
def _custom_operators() -> Any:
    """Operators of a program's own that meet conjugates lazily, in Python and in C++ kernels."""
    library = torch.library.Library("opscope_peers", "FRAGMENT")
    library.define("conjugate_product(Tensor a, Tensor b) -> Tensor")
    library.define("implicit_product(Tensor a, Tensor b) -> Tensor")
    library.impl("conjugate_product", lambda a, b: a.conj() * b, "CPU")
    library.impl("implicit_product", lambda a, b: a.conj() * b, "CompositeImplicitAutograd")

    @torch.library.custom_op("opscope_peers::decorated_product", mutates_args=())
    def decorated_product(a: Tensor, b: Tensor) -> Tensor:
        return a.conj() * b

    decorated_product.register_autograd(
        lambda ctx, gradient: (gradient.conj() * ctx.saved_tensors[1], gradient * 2),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return library


@program
def custom_operator_conj() -> Any:
    _custom_operators()
    a, b = torch.randn(3, dtype=torch.complex64), torch.randn(3, dtype=torch.complex64)
    own = torch.ops.opscope_peers
    found = [own.conjugate_product(a, b), own.conjugate_product(a.conj(), b.imag + 0j)]
    left, right = a.clone().requires_grad_(), b.clone().requires_grad_()
    for function in (own.implicit_product, own.decorated_product):
        result = as_forward(lambda function=function: function(left, right))
        found += [result, *torch.autograd.grad(result.abs().sum(), (left, right))]
    return found


@program
def matrix_rank_out() -> Any:
    found = []
    for dtype in (torch.float32, torch.complex64):
        room = torch.zeros((), dtype=torch.int64)
        matrix = torch.randn(4, 3, dtype=dtype)
        found += [torch.linalg.matrix_rank(matrix, out=room), room]
        found += [torch.linalg.matrix_rank(matrix, hermitian=False, tol=0.1)]
    return found


@program
def median_and_prod_gradients() -> Any:
    found = []
    for x in (_leaf(5), torch.tensor([0.0, 1, 2, 0]).requires_grad_(), _leaf(3, 4)):
        found += [_second(torch.median, x), _second(torch.prod, x)]
    zero = torch.tensor([[1.0, 0, 3], [4, 5, 6]]).requires_grad_()
    found += [_second(lambda t: t.prod(1), zero), _second(lambda t: t.nanmedian(0)[0], zero)]
    return found


@program
def gradients_per_sample() -> Any:
    """`vmap(grad(functional_call))`, as torch's tutorial has it."""
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values: Any, x: Tensor, y: Tensor) -> Tensor:
        out = functional_call(model, values, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return each, vmap(grad(loss), in_dims=(None, 0, 0), randomness="same")(parameters, x, y)


@program
def vmap_and_out() -> Any:
    x = torch.randn(3, 4)
    return vmap(torch.sum)(x), vmap(lambda t: t.sort().values)(x), vmap(vmap(torch.abs))(x)


@program
def gradient_penalty() -> Any:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 1))
    x = _leaf(6, 4)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    ((slope.norm(dim=1) - 1).abs().mean()).backward()
    return [parameter.grad for parameter in model.parameters()]


@program
def accumulated_gradients() -> Any:
    """The second backward adds to what the first left, in place or not."""
    layer = nn.Linear(3, 2)
    for number in range(3):
        layer(torch.full((2, 3), float(number) + 0.1)).sum().backward()
    kept = layer.weight.grad
    layer(torch.ones(2, 3)).sum().backward()
    return kept, layer.weight.grad, kept is layer.weight.grad


@program
def inference_and_no_grad() -> Any:
    x = torch.randn(3, 4)
    with torch.inference_mode():
        one = (x @ x.T).relu()
    with torch.no_grad():
        other = (x @ x.T).relu()
    return one, other


@program
def views_and_versions() -> Any:
    x = torch.randn(3, 4)
    view = x[1:].t()
    view.mul_(2)
    x.add_(1)
    flat = x.view(-1)
    flat[::2] = 0
    return x, view, flat, x._version, view._version, flat._version


@program
def stale_saved_tensor() -> Any:
    """Writing to what backward needs must raise as ever."""
    x = _leaf(3)
    y = x.exp()
    y.add_(1)
    y.sum().backward()
    return x.grad


@program
def random_numbers() -> Any:
    x = torch.ones(3, 4)
    drawn = [torch.rand(3), F.dropout(x, 0.5), torch.bernoulli(x * 0.5), torch.randperm(7)]
    return *drawn, torch.normal(x), x.clone().uniform_(), torch.multinomial(x, 2)


@program
def sparse_gradients() -> Any:
    table = nn.Embedding(6, 3, sparse=True)
    table(torch.tensor([1, 3, 1])).square().sum().backward()
    return table.weight.grad, table.weight.grad.coalesce()

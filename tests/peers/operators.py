"""Cases of one operator of torch's `op_db` with one dtype: calls, gradients, variants, errors."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db

from peers.cases import (
    Case,
    Outcome,
    as_forward,
    attempt,
    copied,
    differentiable_in,
    direction_like,
    leaves_in,
    seed,
    tensors_in,
)

DTYPES = ("float32", "bfloat16", "complex64", "int64")
_MOST_GENERATED = 64
_MOST_ELEMENTS = 500_000
Inputs = tuple[Any, tuple[Any, ...], dict[str, Any]]


@functools.cache
def by_name() -> dict[str, Any]:
    """The operators of the database; variants are apart, as `div.floor_rounding`."""
    return {op.full_name: op for op in op_db}


def dtypes_of(name: str) -> list[str]:
    """Those of our dtypes that an operator supports on the CPU."""
    op = by_name()[name]
    return [dtype for dtype in DTYPES if op.supports_dtype(getattr(torch, dtype), "cpu")]


def cases(name: str, dtype_name: str, most: int) -> list[Case]:
    """All cases of an operator with a dtype, with at most so many sample inputs each."""
    op, dtype = by_name()[name], getattr(torch, dtype_name)
    with_gradient = _has_gradient(op, dtype)
    samples = chosen(_samples(op, dtype, with_gradient), most)
    few = chosen(samples, max(1, most // 2))
    found = [_call(op, number, sample) for number, sample in samples]
    if dtype.is_complex:
        found += [_call(op, number, sample, conjugated=True) for number, sample in few]
    if with_gradient and op.supports_gradgrad:
        found += [_second(op, number, sample) for number, sample in few]
    if with_gradient and op.supports_forward_ad:
        found += [_dual(op, number, sample) for number, sample in few]
        found += [_jvp(op, number, sample) for number, sample in few]
    for kind, variant in (("inplace", op.get_inplace()), ("method", op.get_method())):
        if callable(variant):
            found += [_variant(kind, variant, op, number, sample) for number, sample in few]
    if op.supports_out:
        found += [_out(op, number, sample) for number, sample in few]
    if dtype is torch.float32 and op.error_inputs_func is not None:
        found += [_error(op, number, error) for number, error in chosen(_errors(op), 2 * most)]
    return found


def chosen(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many, spread evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def _has_gradient(op: Any, dtype: torch.dtype) -> bool:
    return bool(op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"))


def _samples(op: Any, dtype: torch.dtype, with_gradient: bool) -> list[tuple[int, Any]]:
    """Numbered sample inputs; none that is large."""
    seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = op.sample_inputs_func(op, "cpu", dtype, with_gradient)
        numbered = list(enumerate(itertools.islice(made, _MOST_GENERATED)))
    return [(number, sample) for number, sample in numbered if _elements(sample) <= _MOST_ELEMENTS]


def _errors(op: Any) -> list[tuple[int, Any]]:
    seed()
    return list(enumerate(itertools.islice(op.error_inputs_func(op, "cpu"), _MOST_GENERATED)))


def _elements(sample: Any) -> int:
    return sum(
        tensor.numel()
        for tensor in tensors_in((sample.input, sample.args, sample.kwargs))
        if not tensor.is_nested
    )


def _inputs(sample: Any, needs_grad: bool = True) -> Inputs:
    inputs: Inputs = copied((sample.input, sample.args, sample.kwargs))
    if not needs_grad:
        for tensor in leaves_in(inputs):
            tensor.requires_grad_(False)
    return inputs


def _apply(function: Callable[..., Any], inputs: Inputs) -> Any:
    first, args, kwargs = inputs
    return as_forward(lambda: function(first, *args, **kwargs))


def _graph_of(op: Any, function: Callable[..., Any], sample: Any, inputs: Inputs) -> Any:
    return sample.output_process_fn_grad(_apply(function, inputs))


def _call(op: Any, number: int, sample: Any, conjugated: bool = False) -> Case:
    """The result and, by `backward`, the gradients of all inputs; perhaps of lazy conjugates."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        result = attempt(outcome, "result", lambda: _apply(op, inputs))
        _backward(outcome, sample.output_process_fn_grad, result, inputs)
        outcome["inputs"] = inputs
        return outcome

    def prepare() -> Inputs:
        inputs = _inputs(sample)
        return _conjugated(inputs) if conjugated else inputs

    kind = "conjugated" if conjugated else "call"
    return Case(f"{kind}[{number}]", prepare, run, ("result", "gradients"))


def _conjugated(value: Any) -> Any:
    """The tree with complex tensors that are conjugated when they are read."""
    if isinstance(value, Tensor) and value.is_complex() and value.layout is torch.strided:
        return value.detach().conj().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_conjugated(item) for item in value)
    if isinstance(value, dict):
        return {key: _conjugated(item) for key, item in value.items()}
    return value


def _backward(outcome: Outcome, process: Callable[[Any], Any], result: Any, inputs: Any) -> None:
    """Run backward from a result, and keep the gradients of the inputs."""
    leaves = leaves_in(inputs)
    if result is None or not leaves:
        return

    def gradients() -> list[Tensor | None]:
        outputs = differentiable_in(process(result))
        if outputs:
            torch.autograd.backward(outputs, [direction_like(output) for output in outputs])
        return [leaf.grad for leaf in leaves]

    attempt(outcome, "gradients", gradients)


def _second(op: Any, number: int, sample: Any) -> Case:
    """Gradients of gradients."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        leaves = leaves_in(inputs)

        def first() -> Any:
            outputs = differentiable_in(_graph_of(op, op, sample, inputs))
            directions = [direction_like(output).requires_grad_() for output in outputs]
            made = _grad(outputs, leaves, directions, create_graph=True)
            return made, directions

        found = attempt(outcome, "first", first)
        if found is not None:
            slopes = differentiable_in(found[0])
            towards = [direction_like(slope) for slope in slopes]
            attempt(outcome, "second", lambda: _grad(slopes, [*leaves, *found[1]], towards))
        return outcome

    return Case(f"second[{number}]", lambda: _inputs(sample), run, ("first", "second"))


def _grad(outputs: Any, inputs: Any, directions: Any, create_graph: bool = False) -> Any:
    if not outputs or not inputs:
        return ()
    return torch.autograd.grad(
        outputs, inputs, directions, create_graph=create_graph, allow_unused=True
    )


def _dual(op: Any, number: int, sample: Any) -> Case:
    """Forward-mode derivatives, by dual numbers."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}

        def tangents() -> Any:
            with forward_ad.dual_level():
                result = _apply(op, _with_tangents(inputs))
                unpacked = [forward_ad.unpack_dual(tensor) for tensor in tensors_in(result)]
                return [(primal, tangent) for primal, tangent in unpacked]

        attempt(outcome, "tangents", tangents)
        return outcome

    return Case(f"dual[{number}]", lambda: _inputs(sample), run)


def _with_tangents(value: Any) -> Any:
    if isinstance(value, Tensor):
        if not value.requires_grad:
            return value
        return forward_ad.make_dual(value.detach(), direction_like(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tangents(item) for item in value)
    if isinstance(value, dict):
        return {key: _with_tangents(item) for key, item in value.items()}
    return value


def _jvp(op: Any, number: int, sample: Any) -> Case:
    """Forward-mode derivatives, by `torch.func.jvp`."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        leaves = [leaf.detach() for leaf in leaves_in(inputs)]

        def pushed() -> Any:
            directions = tuple(direction_like(leaf) for leaf in leaves)
            return torch.func.jvp(
                lambda *values: tuple(
                    tensor
                    for tensor in tensors_in(_apply(op, _replaced(inputs, list(values))))
                    if tensor.is_floating_point() or tensor.is_complex()
                ),
                tuple(leaves),
                directions,
            )

        attempt(outcome, "tangents", pushed)
        return outcome

    return Case(f"jvp[{number}]", lambda: _inputs(sample), run)


def _replaced(value: Any, values: list[Tensor]) -> Any:
    """The tree with its leaves replaced, in order."""
    known: dict[int, Tensor] = {}

    def replace(item: Any) -> Any:
        if isinstance(item, Tensor):
            if not item.requires_grad or not item.is_leaf:
                return item
            if id(item) not in known:
                known[id(item)] = values.pop(0)
            return known[id(item)]
        if isinstance(item, (list, tuple)):
            return type(item)(replace(part) for part in item)
        if isinstance(item, dict):
            return {key: replace(part) for key, part in item.items()}
        return item

    return replace(value)


def _variant(kind: str, variant: Callable[..., Any], op: Any, number: int, sample: Any) -> Case:
    """The method or the in-place method; what is written to is no leaf, so it has gradients."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        first, args, kwargs = inputs

        def call() -> Any:
            start = first.clone() if kind == "inplace" and isinstance(first, Tensor) else first
            return variant(start, *args, **kwargs)

        result = attempt(outcome, "result", lambda: as_forward(call))
        _backward(outcome, sample.output_process_fn_grad, result, inputs)
        outcome["inputs"] = inputs
        return outcome

    return Case(f"{kind}[{number}]", lambda: _inputs(sample), run, ("result", "gradients"))


def _out(op: Any, number: int, sample: Any) -> Case:
    """`out=`, into memory of the right size and into memory that must be resized."""

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        with torch.no_grad():
            result = attempt(outcome, "result", lambda: _apply(op, inputs))
            if result is None:
                return outcome
            for part, resized in (("out", False), ("resized", True)):
                out = _room_for(result, resized)
                attempt(
                    outcome, part, lambda out=out: _apply(functools.partial(op, out=out), inputs)
                )
                outcome[f"{part} itself"] = out
        outcome["inputs"] = inputs
        return outcome

    def prepare() -> Inputs:
        return _inputs(sample, needs_grad=False)

    return Case(f"out[{number}]", prepare, run, ("result", "out"))


def _room_for(result: Any, resized: bool) -> Any:
    if isinstance(result, Tensor):
        shape = (0,) if resized else result.shape
        return torch.zeros(shape, dtype=result.dtype)
    if isinstance(result, (list, tuple)):
        return tuple(_room_for(item, resized) for item in result)
    return result


def _error(op: Any, number: int, error: Any) -> Case:
    """A call that torch refuses."""
    sample = error.sample_input

    def run(inputs: Inputs) -> Outcome:
        outcome: Outcome = {}
        attempt(outcome, "result", lambda: _apply(op, inputs))
        return outcome

    return Case(f"error[{number}]", lambda: _inputs(sample), run)

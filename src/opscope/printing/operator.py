"""`Print` and `print_`, on an operator of torch's own dispatcher.

The operator has an effect, which torch keeps in order and never removes as unused, so it is part
of a compiled graph like any other node. Its output is there for tools that expect one, and says
nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opscope.capture.guards import plain_torch
from opscope.messages import say_once
from opscope.printing.text import tensor_text
from opscope.ranks import current_rank
from opscope.stats.devices import kind_of

LIMIT = 1000
"""Tensors with more elements are shown by their outer ones."""
_SCHEMA = "(Tensor[] tensors, str[] texts, int limit) -> Tensor unused"


class Print:
    """Prints text and tensors from inside a model: make one in `__init__`, call it in `forward`.

    >>> Print()("x is", torch.tensor([1, 2]))
    x is
    Tensor(shape=[2], dtype=Int64, value=[1 2])
    """

    def __init__(self, *, grad: bool = False, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit = {limit}: must be at least 1")
        self.grad = grad
        self.limit = limit

    def __call__(self, *values: object) -> None:
        """Print each value on lines of its own."""
        print_(*values, grad=self.grad, limit=self.limit)

    def __repr__(self) -> str:
        return f"Print(grad={self.grad}, limit={self.limit})"


def print_(*values: object, grad: bool = False, limit: int = LIMIT) -> None:
    """Print text and tensors to stdout, each on lines of its own, eager or compiled.

    `grad` also prints the gradients of these tensors when backward reaches them. Of a tensor with
    more than `limit` elements only the outer ones are shown.
    """
    texts, tensors = _parts(values)
    with torch.no_grad():
        _operator(tensors, texts, limit)
    if grad and torch.is_grad_enabled():
        for number, tensor in enumerate(tensors):
            if tensor.requires_grad:
                tensor.register_hook(_gradient_hook(texts[number], number, limit))


def _parts(values: Sequence[object]) -> tuple[list[str], list[Any]]:
    """The tensors, and the lines before each of them and after the last."""
    texts, tensors = [""], []
    for value in _flat(values):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            texts.append("")
        else:
            texts[-1] += f"{value}\n"
    return texts, tensors


def _flat(values: Sequence[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


def _gradient_hook(text: str, number: int, limit: int) -> Callable[[Any], None]:
    lines = text.splitlines()
    name = lines[-1] if lines else f"tensor {number}"

    def show(gradient: Any) -> None:
        with torch.no_grad():
            _operator([gradient], [f"gradient of {name}\n", ""], limit)

    return show


def _write(tensors: Sequence[Any], texts: Sequence[str], limit: int) -> Any:
    """Return what the operator does: everything in one piece, so that threads do not mix lines."""
    if _is_captured(tensors):
        return _nothing(tensors, texts, limit)
    with plain_torch():
        shown = [f"{tensor_text(tensor, limit)}\n" for tensor in tensors]
        parts = [text + value for text, value in zip(texts, [*shown, ""], strict=True)]
        _to_stdout("".join(parts))
        return _nothing(tensors, texts, limit)


def _is_captured(tensors: Sequence[Any]) -> bool:
    """Tell whether a CUDA graph is being captured, which cannot wait for values; say so once."""
    kinds = filter(None, map(kind_of, tensors))
    if not any(kind.is_capturing(torch) for kind in kinds):
        return False
    say_once(
        "Print shows nothing inside CUDA graphs, which cannot wait for values: "
        'compile without mode="reduce-overhead" to see them',
        "print:captured",
    )
    return True


def _to_stdout(text: str) -> None:
    if int(os.environ.get("WORLD_SIZE", "") or 1) > 1 or _has_ranks():
        rank = current_rank()
        text = "".join(f"[rank {rank}] {line}" for line in text.splitlines(keepends=True))
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as error:
        say_once(f"Print cannot write to stdout: {error}", "print")


def _has_ranks() -> bool:
    distributed = torch.distributed
    available = distributed.is_available() and distributed.is_initialized()
    return bool(available and distributed.get_world_size() > 1)


def _nothing(tensors: Sequence[Any], texts: Sequence[str], limit: int) -> Any:
    """The output: a zero where the tensors are."""
    device = tensors[0].device if tensors else "cpu"
    return torch.zeros(1, dtype=torch.int32, device=device)


def _batched(
    info: Any, dims: Any, tensors: Sequence[Any], texts: Sequence[str], limit: int
) -> tuple[Any, None]:
    """Under vmap: the whole batch at once, its dimension first."""
    moved = [
        tensor if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims[0], strict=True)
    ]
    return _operator(moved, texts, limit), None


def _define() -> Any:
    made = torch.library.custom_op(
        "opscope::print",
        _write,
        mutates_args=(),
        schema=_SCHEMA,
        tags=(torch.Tag.cudagraph_unsafe,),
    )
    made.register_fake(_nothing)
    made.register_vmap(_batched)
    effects = torch._higher_order_ops.effects
    made.register_effect(effects._EffectType.ORDERED)
    return made


_operator = _define()

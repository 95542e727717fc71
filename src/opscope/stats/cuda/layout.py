"""Tensors as stretches of memory that can be read from one end to the other."""

from __future__ import annotations

import functools
from typing import Any


def flat(tensor: Any) -> tuple[Any, int]:
    """A tensor with the same elements without gaps, and how often each of them counts.

    Dense permutations stay where they are; what `expand` repeats is read once. Everything else is
    copied, on the current stream. Elements that are negated by a bit are copied too; conjugated
    ones have the same absolute values.
    """
    import torch

    tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    if not tensor.numel():
        return tensor, 1
    repeated, dense = _plan(tuple(tensor.shape), tensor.stride())
    times = 1
    for dim in repeated:
        times *= tensor.shape[dim]
        tensor = tensor.narrow(dim, 0, 1)
    return tensor if dense else tensor.contiguous(), times


@functools.lru_cache(4096)
def _plan(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The dimensions that only repeat, and whether the others have no gaps in some order."""
    repeated = tuple(
        dim for dim, (size, step) in enumerate(zip(shape, strides, strict=True))
        if step == 0 and size > 1
    )  # fmt: skip
    kept = sorted(
        (step, size)
        for dim, (size, step) in enumerate(zip(shape, strides, strict=True))
        if size > 1 and dim not in repeated
    )
    expected = 1
    for step, size in kept:
        if step != expected:
            return repeated, False
        expected *= size
    return repeated, True

"""Tensors as memory that can be read from one end to the other, or in runs with gaps between."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from opscope.native import shared

_VECTOR_BYTES = shared.VECTOR_BYTES
_MOST = shared.MOST_IN_RUNS
"""Elements of a tensor in runs: the kernel divides 32-bit numbers."""


class Runs(NamedTuple):
    """Elements in up to three dimensions, those that lie closest first; distances in elements."""

    inner: int
    rows: int
    inner_step: int
    row_step: int
    outer_step: int


def readable(tensor: Any) -> tuple[Any, int, Runs | None]:
    """A tensor with the same elements, how often each counts, and its runs if it has gaps.

    Dense permutations stay where they are; what `expand` repeats is read once. Elements that are
    negated by a bit are copied, on the current stream, and so is what has gaps in more than three
    dimensions; conjugated ones have the same absolute values.
    """
    import torch

    tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    if not tensor.numel():
        return tensor, 1, None
    repeated, dense, runs = _plan(tuple(tensor.shape), tensor.stride())
    times = 1
    for dim in repeated:
        times *= tensor.shape[dim]
        tensor = tensor.narrow(dim, 0, 1)
    if not dense and runs is None:
        tensor = tensor.contiguous()
    return tensor, times, runs


def is_dense(tensor: Any) -> bool:
    """Tell whether a tensor is a stretch of memory without gaps, each element once."""
    if tensor.is_contiguous():
        return True
    repeated, dense, _ = _plan(tuple(tensor.shape), tensor.stride())
    return dense and not repeated


def vectors_fit(runs: Runs, size: int) -> bool:
    """Tell whether runs of elements consist of whole vectors, each where one may be."""
    width = max(1, _VECTOR_BYTES // size)
    inner, _, step, *others = runs
    return step == 1 and not any(number % width for number in (inner, *others))


@functools.lru_cache(4096)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], bool, Runs | None]:
    """The dimensions that only repeat; whether the others have no gaps in some order, or runs."""
    dims = list(enumerate(zip(shape, strides, strict=True)))
    repeated = tuple(dim for dim, (size, step) in dims if step == 0 and size > 1)
    merged: list[tuple[int, int]] = []
    count = 1
    for step, size in sorted((t, s) for _, (s, t) in dims if s > 1 and t):
        count *= size
        if merged and step == merged[-1][0] * merged[-1][1]:
            size, step = size * merged[-1][0], merged.pop()[1]
        merged.append((size, step))
    if not merged or (len(merged) == 1 and merged[0][1] == 1):
        return repeated, True, None
    if len(merged) > 3 or count >= _MOST:
        return repeated, False, None
    (inner, inner_step), (rows, row_step), (_, outer_step) = (*merged, (1, 0), (1, 0))[:3]
    return repeated, False, Runs(inner, rows, inner_step, row_step, outer_step)

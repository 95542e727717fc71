"""Seven numbers about two CUDA tensors of one dtype and shape.

They are those of `opscope_pair`: mean |a - b|, mean |b| (of pairs that are finite), max |a - b| (of
pairs without NaN), pairs outside atol + rtol · |b|, pairs that are finite, NaN in a, NaN in b.
Everything is in float64; means are within 10⁻¹² of the exact ones, relative.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

from opscope.stats.cuda import forms
from opscope.stats.cuda.launch import Kernel, compiled
from opscope.stats.cuda.layout import is_dense

_UP = 2.0**70
_TILE = 4 * forms.THREADS


class Pair(NamedTuple):
    """The distance of two tensors; means and the maximum of nothing are NaN."""

    mean_distance: float
    mean_size: float
    max_distance: float
    outside: int
    compared: int
    nan_a: int
    nan_b: int


def pair(a: Any, b: Any, rtol: float = 0.0, atol: float = 0.0, *, equal_nan: bool = False) -> Pair:
    """Compare two tensors and wait for the numbers."""
    numbers = pair_tensor(a, b, rtol, atol, equal_nan=equal_nan).tolist()
    return Pair(*numbers[:3], *map(int, numbers[3:]))


def pair_tensor(
    a: Any, b: Any, rtol: float = 0.0, atol: float = 0.0, *, equal_nan: bool = False
) -> Any:
    """The seven numbers as a float64 tensor on the device, without waiting for them.

    They are computed on the current stream of that device, which must be the current one.
    """
    import torch

    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        raise ValueError(
            f"tensors of one dtype, shape and device are compared, not {a.dtype} {tuple(a.shape)} "
            f"on {a.device} and {b.dtype} {tuple(b.shape)} on {b.device}"
        )
    with torch.no_grad():
        a, b = _same_order(a.detach(), b.detach())
        count = a.numel()
        if not count:
            nothing = [float("nan")] * 3 + [0.0] * 4
            return torch.tensor(nothing, dtype=torch.float64, device=a.device)
        programs = min(forms.PROGRAMS, -(-count // _TILE))
        parts = torch.empty(programs, 9, dtype=torch.float64, device=a.device)
        _launch(a, b, count, programs, parts, (_bits(atol), _bits(rtol)), equal_nan)
        return _numbers(parts)


def _same_order(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with their elements in one order and no gaps, with conjugations carried out."""
    import torch

    if a.dtype is torch.complex32:
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    a, b = (t.resolve_neg().resolve_conj() for t in (a, b))
    if a.stride() == b.stride() and is_dense(a):
        return a, b
    return a.contiguous(), b.contiguous()


def _launch(
    a: Any, b: Any, count: int, programs: int, parts: Any, levels: tuple[int, int], equal_nan: bool
) -> None:
    import torch

    form = forms.forms()[a.dtype]
    index = a.get_device()
    stream = torch._C._cuda_getCurrentRawStream(index) if index >= 0 else 0
    aligned = not (a.data_ptr() | b.data_ptr()) & 15
    k = _kernel(form, equal_nan, aligned, index)
    k.launch(
        programs, 1, 1, stream, k.function, k.cooperative, k.pdl,
        None, None, k.packed, None, None, None,
        a.data_ptr(), b.data_ptr(), count, parts.data_ptr(), *levels,
        None, None, None, None, None,
    )  # fmt: skip


def _bits(value: float) -> int:
    bits: int = struct.unpack("q", struct.pack("d", value))[0]
    return bits


@functools.cache
def _kernel(form: forms.ElementForm, equal_nan: bool, aligned: bool, device: int) -> Kernel:
    import triton.language as tl

    from opscope.stats.cuda import pair_kernel

    constants = {
        "load": getattr(tl, form.load),
        "form": form.code,
        "equal_nan": equal_nan,
        "aligned": aligned,
        "threads": forms.THREADS,
    }
    return compiled(pair_kernel.pair_parts, 6, constants, forms.THREADS // 32)


def _numbers(parts: Any) -> Any:
    import torch

    sums = parts.sum(0)
    finite = sums[6]
    means = (sums[[0, 2]] / finite) + (sums[[1, 3]] / finite) * _UP
    largest = parts[:, 4].max()
    largest = torch.where(largest < 0, torch.nan, largest)
    return torch.cat((means, largest[None], sums[5:]))

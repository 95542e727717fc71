# mypy: ignore-errors
# ruff: noqa: SIM109 - conditions of the compiler, and Triton has no `in` for them
"""The careful loop: everything in float64 or as integers, with NaN and infinities counted."""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda.kernel_basics import (
    BYTE,
    COMPLEX,
    DOUBLE,
    INT,
    LOW_BIT,
    UINT64,
    _float32,
    _modulus,
    _place,
    _put,
)

WIDTH = tl.constexpr(4)
"""Elements per thread in the exact loop."""


@triton.jit
def _join(sum0, sum1, low, high, count, sum0_, sum1_, low_, high_, count_):
    """Two sums, a minimum, a maximum and a count of two threads: one exchange for all of them."""
    low = tl.minimum(low, low_)
    return sum0 + sum0_, sum1 + sum1_, low, tl.maximum(high, high_), count + count_


@triton.jit
def _join_rare(a, b, c, d, e, f, a_, b_, c_, d_, e_, f_):
    """Six sums of two threads."""
    return a + a_, b + b_, c + c_, d + d_, e + e_, f + f_


@triton.jit
def _exact(
    base, first, stop, step, n, part, pid, programs, scale,
    inner_size, rows, inner_step, row_step, outer_step, strided: tl.constexpr,
    form: tl.constexpr, group: tl.constexpr, threads: tl.constexpr,
):  # fmt: skip
    """The partial row of any elements in float64, of `scale` times them; whether it is sound."""
    tile: tl.constexpr = threads * WIDTH
    inner = tl.arange(0, threads)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    integer: tl.constexpr = form == INT or form == UINT64 or form == BYTE
    shift = tl.zeros([threads], tl.float64)
    total = tl.zeros([threads], tl.float64)
    absolute = tl.zeros([threads], tl.float64)
    squares = tl.zeros([threads], tl.float64)
    finites = tl.zeros([threads], tl.int32)
    zeros = tl.zeros([threads], tl.int32)
    negatives = tl.zeros([threads], tl.int32)
    peak = tl.zeros([threads], tl.float64)
    if integer:
        nans = tl.zeros([threads], tl.int64)
        ups = tl.zeros([threads], tl.int64)
        downs = tl.zeros([threads], tl.int64)
        low = tl.full([threads], 2**63 - 1, tl.int64)
        high = tl.full([threads], -(2**63), tl.int64)
    else:
        real: tl.constexpr = tl.float64 if form == DOUBLE or form == COMPLEX else tl.float32
        nans = tl.zeros([threads], tl.int32)
        ups = tl.zeros([threads], tl.int32)
        downs = tl.zeros([threads], tl.int32)
        low = tl.full([threads], float("inf"), real)
        high = tl.full([threads], float("-inf"), real)
    for index in range(first, stop, step):
        for sub in range(group // tile):
            offsets = index * group + sub * tile + inner
            here = offsets < n
            places = offsets
            if strided:
                number = tl.where(here, offsets, 0).to(tl.int32)
                places = _place(number, inner_size, rows, inner_step, row_step, outer_step)
            if form == COMPLEX:
                re = tl.load(base + places * 2, mask=here, other=0.0).to(tl.float64)
                im = tl.load(base + places * 2 + 1, mask=here, other=0.0).to(tl.float64)
                y = _modulus(re, im)
            else:
                if stop * group <= n:
                    y = tl.load(base + places)  # whole groups: without a mask, in vectors
                else:
                    y = tl.load(base + places, mask=here, other=0)
                if not integer and form != DOUBLE:
                    y = _float32(y, form)
            zeros += tl.sum(((y == 0) & here).to(tl.int32), 1)
            negatives += tl.sum(((y < 0) & here).to(tl.int32), 1)
            if integer:
                finite = here
                whole = y.to(tl.int64)
                x = y.to(tl.float64)
                ups += tl.sum(tl.where(whole < 0, -whole, whole), 1)
                nans += tl.sum(whole, 1)
                if form == UINT64:
                    ups += tl.sum(tl.where(whole < 0, whole + whole, 0), 1)
                    whole = whole ^ LOW_BIT
                low = tl.minimum(low, tl.min(tl.where(here, whole, 2**63 - 1), 1))
                high = tl.maximum(high, tl.max(tl.where(here, whole, -(2**63)), 1))
            else:
                known = (y == y) & here
                finite = (tl.abs(y) < float("inf")) & here
                nans += tl.sum(((y != y) & here).to(tl.int32), 1)
                ups += tl.sum(((y == float("inf")) & here).to(tl.int32), 1)
                downs += tl.sum(((y == float("-inf")) & here).to(tl.int32), 1)
                low = tl.minimum(low, tl.min(tl.where(known, y, float("inf")), 1))
                high = tl.maximum(high, tl.max(tl.where(known, y, float("-inf")), 1))
                x = tl.where(finite, y, 0.0).to(tl.float64)
                if form == DOUBLE or form == COMPLEX:
                    peak = tl.maximum(peak, tl.max(tl.abs(x), 1))
                    x = x * scale
            number = tl.sum(finite.to(tl.int32), 1)
            share = tl.where(number == 4, 0.25, tl.where(number == 3, 1.0 / 3.0, 1.0 / 2.0))
            share = tl.where(number == 1, 1.0, share)
            fresh = (finites == 0) & (number > 0)
            shift = tl.where(fresh, tl.sum(x, 1) * share, shift)
            away = tl.where(finite, x - shift[:, None], 0.0)
            finites += number
            total += tl.sum(away, 1)
            squares += tl.sum(away * away, 1)
            absolute += tl.sum(tl.abs(x), 1)
    count_each = finites.to(tl.float64)
    mean_each = shift + total / tl.maximum(count_each, 1.0)
    squares -= total * total / tl.maximum(count_each, 1.0)
    finites, zeros, negatives, nans, ups, downs = tl.reduce(
        (finites.to(tl.int64), zeros.to(tl.int64), negatives.to(tl.int64),
         nans.to(tl.int64), ups.to(tl.int64), downs.to(tl.int64)), 0, _join_rare
    )  # fmt: skip
    count = finites.to(tl.float64)
    divisor = tl.maximum(count, 1.0)
    mean, total_absolute, lowest, highest, _ = tl.reduce(
        (mean_each * (count_each / divisor), absolute, low, high, count_each), 0, _join
    )
    away_each = mean_each - mean
    spread = tl.sum(squares + count_each * away_each * away_each, 0)
    square = spread / divisor + mean * mean
    sound = (square < float("inf")) & (total_absolute < float("inf"))
    sound = sound & ((square > 1e-260) | (total_absolute == 0.0))
    if integer:
        _put(part, pid, programs, 0, lowest)
        _put(part, pid, programs, 1, highest)
    else:
        _put(part, pid, programs, 0, lowest.to(tl.float64))
        _put(part, pid, programs, 1, highest.to(tl.float64))
    _put(part, pid, programs, 2, mean / scale)
    _put(part, pid, programs, 3, total_absolute / divisor / scale)
    _put(part, pid, programs, 4, tl.sqrt(spread / divisor) / scale)
    _put(part, pid, programs, 5, finites)
    _put(part, pid, programs, 6, zeros)
    _put(part, pid, programs, 7, negatives)
    _put(part, pid, programs, 8, nans)
    _put(part, pid, programs, 9, ups)
    _put(part, pid, programs, 10, downs)
    return sound, tl.max(peak, 0)

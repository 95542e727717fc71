# mypy: ignore-errors

"""The hot loop over whole groups of finite numbers.

It takes float32 within a thread's part of a group (16 to 64 elements, in two passes over registers:
first the mean, then the squares of the distances from it), float64 across groups. It knows neither
NaN nor infinities, and says whether its sums are to be trusted.
"""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda.kernel_basics import BYTE, _float32, _place, _put


@triton.jit
def _positive(x, ptx: tl.constexpr):
    """1 for positive numbers, 0 for others; of NaN one or the other."""
    if ptx:
        # Twice times 2¹²⁷, cut off at 0 and 1: even the smallest number becomes 1. Comparing and
        # selecting would take instructions of which a multiprocessor does half as many.
        return tl.inline_asm_elementwise(
            "{ .reg .f32 t; mul.sat.f32 t, $1, 0f7F000000; mul.sat.f32 $0, t, 0f7F000000; }",
            "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
    return tl.where(x > 0, 1.0, 0.0)


@triton.jit
def _inner(x):
    """Sums of [threads, unroll, vector] within each thread."""
    return tl.sum(tl.sum(x, 2), 1)


@triton.jit
def _join_lean(
    sum0, sum1, sum2, low, high, count, sum0_, sum1_, sum2_, low_, high_, count_
):  # fmt: skip
    """The same with three sums."""
    low = tl.minimum(low, low_)
    high = tl.maximum(high, high_)
    return sum0 + sum0_, sum1 + sum1_, sum2 + sum2_, low, high, count + count_


@triton.jit
def _lean(
    base, first, full, step, part, pid, programs,
    inner, rows, inner_step, row_step, outer_step, strided: tl.constexpr, aligned: tl.constexpr,
    form: tl.constexpr, group: tl.constexpr, precise: tl.constexpr,
    threads: tl.constexpr, unroll: tl.constexpr, ptx: tl.constexpr,
):  # fmt: skip
    """The partial row of whole groups of finite numbers; whether it is to be trusted."""
    vector: tl.constexpr = group // (threads * unroll)
    each: tl.constexpr = vector * unroll
    starts = tl.arange(0, threads)[:, None] + tl.arange(0, unroll)[None, :] * threads
    lanes = tl.arange(0, vector)[None, None, :]
    offsets = (
        tl.arange(0, threads)[:, None, None] * vector
        + tl.arange(0, unroll)[None, :, None] * (threads * vector)
        + lanes
    )
    low = tl.full([threads], float("inf"), tl.float32)
    high = tl.full([threads], float("-inf"), tl.float32)
    positives = tl.zeros([threads], tl.float32)
    negatives = tl.zeros([threads], tl.float32)
    if precise:
        shift = tl.zeros([threads], tl.float32)
        total = tl.zeros([threads], tl.float64)
        absolute = tl.zeros([threads], tl.float64)
        between = tl.zeros([threads], tl.float64)
        within = tl.zeros([threads], tl.float64)
    else:
        total = tl.zeros([threads], tl.float32)
        absolute = tl.zeros([threads], tl.float32)
        within = tl.zeros([threads], tl.float32)
    for index in range(first, full, step):
        if strided:
            if aligned:
                # In vectors, so that the compiler knows that each of them is one.
                number = (index * (group // vector) + starts).to(tl.int32)
                place = _place(
                    number, inner // vector, rows, 1, row_step // vector, outer_step // vector
                )
                raw = tl.load(base + ((place * vector)[:, :, None] + lanes))
            else:
                number = (index * group + offsets).to(tl.int32)
                raw = tl.load(base + _place(number, inner, rows, inner_step, row_step, outer_step))
        else:
            raw = tl.load(base + index * group + offsets)
        x = _float32(raw, form)
        low = tl.minimum(low, tl.min(tl.min(x, 2), 1))
        high = tl.maximum(high, tl.max(tl.max(x, 2), 1))
        # At most 1000 groups of 64 elements come by here: float32 counts them exactly.
        positives += _inner(_positive(x, ptx))
        negatives += _inner(_positive(-x, ptx))
        if precise:
            mean = _inner(x) * (1.0 / each)
            away = x - mean[:, None, None]
            shift = tl.where(index == first, mean, shift)
            off = mean.to(tl.float64) - shift.to(tl.float64)
            total += off
            between += off * off
            within += _inner(away * away).to(tl.float64)
            absolute += _inner(tl.abs(x)).to(tl.float64)
        else:
            total += _inner(x)
            within += _inner(x * x)
            absolute += _inner(tl.abs(x))
    rounds = ((full - first + step - 1) // step).to(tl.float64)
    count = rounds * each
    if precise:
        total_each = (shift.to(tl.float64) * rounds + total) * each
        squares = within + each * (between - total * total / rounds)
        squares += total_each * total_each / count
    else:
        total_each = total.to(tl.float64)
        squares = within.to(tl.float64)
    zeros = count.to(tl.int64) - (positives + negatives).to(tl.int64)
    counts = zeros << 32 | negatives.to(tl.int64)
    # One exchange among the threads. The squares are of the elements themselves, in float64: for
    # equal elements that leaves a spread of 2⁻²⁵ of them at most.
    everything, total_absolute, squares, lowest, highest, counts = tl.reduce(
        (total_each, absolute.to(tl.float64), squares, low, high, counts), 0, _join_lean
    )
    mean = everything / (count * threads)
    square = squares / (count * threads)
    variance = tl.maximum(square - mean * mean, 0.0)
    sound = (square < float("inf")) & ((square > 7.9e-31) | (total_absolute == 0.0))
    _put(part, pid, programs, 2, mean)
    _put(part, pid, programs, 3, total_absolute / (count * threads))
    _put(part, pid, programs, 4, tl.sqrt(variance))
    _put(part, pid, programs, 5, (count * threads).to(tl.int64))
    _put(part, pid, programs, 6, counts >> 32)
    _put(part, pid, programs, 7, counts & 0xFFFFFFFF)
    if form == BYTE:
        _put(part, pid, programs, 0, lowest.to(tl.int64))
        _put(part, pid, programs, 1, highest.to(tl.int64))
        _put(part, pid, programs, 8, everything.to(tl.int64))
        _put(part, pid, programs, 9, total_absolute.to(tl.int64))
        _put(part, pid, programs, 10, lowest.to(tl.int64) * 0)
    else:
        none = counts * 0
        _put(part, pid, programs, 0, lowest.to(tl.float64))
        _put(part, pid, programs, 1, highest.to(tl.float64))
        _put(part, pid, programs, 8, none)
        _put(part, pid, programs, 9, none)
        _put(part, pid, programs, 10, none)
    return sound

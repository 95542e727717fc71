# mypy: ignore-errors
# ruff: noqa: SIM109 - conditions of the compiler, and Triton has no `in` for them
"""The Triton kernel over two tensors."""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda.kernel_basics import BYTE, COMPLEX, DOUBLE, INT, UINT64, _float32, _modulus

WIDTH = tl.constexpr(4)
SLOTS = tl.constexpr(9)
DOWN = tl.constexpr(2.0**-70)
INF = tl.constexpr(float("inf"))


@triton.jit
def _whole_distance(a, b, unsigned: tl.constexpr):
    """|a - b| of integers of 64 bits, exact before it becomes float64."""
    below = a < b
    if unsigned:
        below = (a ^ (-(2**63))) < (b ^ (-(2**63)))
    return tl.where(below, b - a, a - b).to(tl.uint64, bitcast=True).to(tl.float64)


@triton.jit
def _sums(value):
    """Sums of numbers below 1, and of 2**-70 times the others, which cannot overflow."""
    small = value < 1.0
    return tl.sum(tl.where(small, value, 0.0), 1), tl.sum(tl.where(small, 0.0, value * DOWN), 1)


@triton.jit(do_not_specialize=["first", "second", "n", "parts", "atol", "rtol"])
def pair_parts(
    first: tl.int64, second: tl.int64, n: tl.int64, parts: tl.int64, atol: tl.int64, rtol: tl.int64,
    load: tl.constexpr, form: tl.constexpr, equal_nan: tl.constexpr, aligned: tl.constexpr,
    threads: tl.constexpr,
):  # fmt: skip
    """Partial numbers of pairs; grid: (programs,). Tolerances are the bits of float64 numbers."""
    n = n.to(tl.int64)
    pid = tl.program_id(0).to(tl.int64)
    programs = tl.num_programs(0)
    tile: tl.constexpr = threads * WIDTH
    a_base = first.to(tl.pointer_type(load))
    b_base = second.to(tl.pointer_type(load))
    if aligned:
        a_base = tl.multiple_of(a_base, 16)
        b_base = tl.multiple_of(b_base, 16)
    absolute = atol.to(tl.int64).to(tl.float64, bitcast=True)
    relative = rtol.to(tl.int64).to(tl.float64, bitcast=True)
    inner = tl.arange(0, threads)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    distance_small = tl.zeros([threads], tl.float64)
    distance_big = tl.zeros([threads], tl.float64)
    size_small = tl.zeros([threads], tl.float64)
    size_big = tl.zeros([threads], tl.float64)
    largest = tl.full([threads], -1.0, tl.float64)
    outside = tl.zeros([threads], tl.int64)
    finites = tl.zeros([threads], tl.int64)
    nans_a = tl.zeros([threads], tl.int64)
    nans_b = tl.zeros([threads], tl.int64)
    for start in range(pid * tile, n, programs * tile):
        offsets = start + inner
        here = offsets < n
        if form == COMPLEX:
            re_a = tl.load(a_base + offsets * 2, mask=here, other=0.0).to(tl.float64)
            im_a = tl.load(a_base + offsets * 2 + 1, mask=here, other=0.0).to(tl.float64)
            re_b = tl.load(b_base + offsets * 2, mask=here, other=0.0).to(tl.float64)
            im_b = tl.load(b_base + offsets * 2 + 1, mask=here, other=0.0).to(tl.float64)
            a = _modulus(re_a, im_a)
            b = _modulus(re_b, im_b)
            equal = (re_a == re_b) & (im_a == im_b)
            distance = _modulus(re_a - re_b, im_a - im_b)
            infinite = ((a == INF) | (b == INF)) & (a == a) & (b == b)
            distance = tl.where(infinite, INF, distance)
        else:
            if start + tile <= n:
                raw_a = tl.load(a_base + offsets)
                raw_b = tl.load(b_base + offsets)
            else:
                raw_a = tl.load(a_base + offsets, mask=here, other=0)
                raw_b = tl.load(b_base + offsets, mask=here, other=0)
            equal = raw_a == raw_b
            if form == INT or form == UINT64 or form == BYTE:
                a = raw_a.to(tl.float64)
                b = raw_b.to(tl.float64)
                distance = _whole_distance(raw_a.to(tl.int64), raw_b.to(tl.int64), form == UINT64)
            else:
                if form == DOUBLE:
                    a = raw_a
                    b = raw_b
                else:
                    a = _float32(raw_a, form).to(tl.float64)
                    b = _float32(raw_b, form).to(tl.float64)
                equal = a == b
                distance = tl.abs(a - b)
        distance = tl.where(equal, 0.0, distance)
        nan_a = (a != a) & here
        nan_b = (b != b) & here
        size = tl.abs(b)
        finite = (tl.abs(a) < INF) & (size < INF) & here
        near = finite & (distance <= absolute + relative * size)
        same = near | equal
        if equal_nan:
            same = same | (nan_a & nan_b)
        outside += tl.sum((here & (same == 0)).to(tl.int64), 1)
        finites += tl.sum(finite.to(tl.int64), 1)
        nans_a += tl.sum(nan_a.to(tl.int64), 1)
        nans_b += tl.sum(nan_b.to(tl.int64), 1)
        known = here & (distance == distance)
        largest = tl.maximum(largest, tl.max(tl.where(known, distance, -1.0), 1))
        # A distance of finite numbers may overflow: it is formed of smaller ones.
        if form == COMPLEX:
            scaled = _modulus(re_a * DOWN - re_b * DOWN, im_a * DOWN - im_b * DOWN)
        elif form == INT or form == UINT64 or form == BYTE:
            scaled = distance * DOWN
        else:
            scaled = tl.abs(a * DOWN - b * DOWN)
        small = distance < 1.0
        distance_small += tl.sum(tl.where(finite & small, distance, 0.0), 1)
        distance_big += tl.sum(tl.where(finite & (small == 0), scaled, 0.0), 1)
        less, more = _sums(tl.where(finite, size, 0.0))
        size_small += less
        size_big += more
    out = parts.to(tl.pointer_type(tl.float64)) + pid * SLOTS
    tl.store(out, tl.sum(distance_small, 0))
    tl.store(out + 1, tl.sum(distance_big, 0))
    tl.store(out + 2, tl.sum(size_small, 0))
    tl.store(out + 3, tl.sum(size_big, 0))
    tl.store(out + 4, tl.max(largest, 0))
    tl.store(out + 5, tl.sum(outside, 0).to(tl.float64))
    tl.store(out + 6, tl.sum(finites, 0).to(tl.float64))
    tl.store(out + 7, tl.sum(nans_a, 0).to(tl.float64))
    tl.store(out + 8, tl.sum(nans_b, 0).to(tl.float64))

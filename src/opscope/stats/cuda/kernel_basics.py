# mypy: ignore-errors
# ruff: noqa: SIM109 - conditions of the compiler, and Triton has no `in` for them
"""Shared parts of the Triton kernels: reading elements, and storing partial rows."""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda import forms as f

FLOAT = tl.constexpr(f.FLOAT)
E4M3FN = tl.constexpr(f.E4M3FN)
E4M3FNUZ = tl.constexpr(f.E4M3FNUZ)
E5M2 = tl.constexpr(f.E5M2)
E8M0FNU = tl.constexpr(f.E8M0FNU)
BYTE = tl.constexpr(f.BYTE)
DOUBLE = tl.constexpr(f.DOUBLE)
INT = tl.constexpr(f.INT)
UINT64 = tl.constexpr(f.UINT64)
COMPLEX = tl.constexpr(f.COMPLEX)
LOW_BIT = tl.constexpr(-(2**63))


@triton.jit
def _float8(raw, form: tl.constexpr):
    """float32 numbers of float8 bytes, exactly; no hardware support needed."""
    bits = raw.to(tl.int32)
    if form == E8M0FNU:
        value = tl.maximum(bits << 23, 1 << 22).to(tl.float32, bitcast=True)
        return tl.where(bits == 255, float("nan"), value)
    low = bits & 127
    if form == E4M3FN:
        value = (low << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36  # 2**120
        value = tl.where(low == 127, float("nan"), value)
    elif form == E4M3FNUZ:
        value = (low << 20).to(tl.float32, bitcast=True) * 6.64613997892458e35  # 2**119
        value = tl.where(bits == 128, float("nan"), value)
    elif form == E5M2:
        value = (low << 21).to(tl.float32, bitcast=True) * 5.192296858534828e33  # 2**112
        value = tl.where(low == 124, float("inf"), tl.where(low > 124, float("nan"), value))
    else:
        value = (low << 21).to(tl.float32, bitcast=True) * 2.596148429267414e33  # 2**111
        value = tl.where(bits == 128, float("nan"), value)
    return tl.where(bits > 127, -value, value)


@triton.jit
def _float32(raw, form: tl.constexpr):
    """The loaded elements as float32 numbers, exactly."""
    if form == FLOAT or form == BYTE:
        return raw.to(tl.float32)
    return _float8(raw, form)


@triton.jit
def _modulus(re, im):
    """|x| in float64: infinite with an infinite part, NaN with a NaN part and no infinite one."""
    re = tl.abs(re)
    im = tl.abs(im)
    infinite = (re == float("inf")) | (im == float("inf"))
    nan = (re != re) | (im != im)
    big = tl.where(nan | infinite, 1.0, tl.maximum(re, im))
    small = tl.where(nan | infinite, 0.0, tl.minimum(re, im))
    ratio = small / tl.where(big == 0.0, 1.0, big)
    value = big * tl.sqrt(1.0 + ratio * ratio)
    return tl.where(infinite, float("inf"), tl.where(nan, float("nan"), value))


@triton.jit
def _place(number, inner, rows, inner_step, row_step, outer_step):
    """Return how far from the first an element is: layout.py, Runs. Places are 64-bit."""
    row = number // inner
    within = (number - row * inner).to(tl.int64) * inner_step
    outer = row // rows
    return within + (row - outer * rows).to(tl.int64) * row_step + outer.to(tl.int64) * outer_step


@triton.jit
def _put(part, pid, programs, slot: tl.constexpr, value):
    """Store one number of a partial row."""
    tl.store(part + (slot * programs + pid), value.to(tl.int64, bitcast=True))


@triton.jit
def _take(part, programs, index, here, slot: tl.constexpr):
    """One number of some partial rows."""
    return tl.load(part + slot * programs + index, mask=here, other=0)

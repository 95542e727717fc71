# mypy: ignore-errors

"""The finishing of rows: one row from the partial rows of its programs."""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda.kernel_basics import BYTE, INT, LOW_BIT, UINT64, _take


@triton.jit
def _real(bits):
    return bits.to(tl.float64, bitcast=True)


@triton.jit
def _result(row, spot: tl.constexpr, value):
    """A finished row with one more number in it."""
    return tl.where(tl.arange(0, 16) == spot, value.to(tl.int64, bitcast=True), row)


@triton.jit(do_not_specialize=["heads", "outs"])
def finish(heads: tl.int64, outs: tl.int64, block: tl.constexpr):
    """Rows from their partial rows; grid: (rows,).

    Sums of squares are formed of numbers divided by the largest, so they neither overflow nor
    vanish. Integers have exact means wherever their sum is below 2⁶².
    """
    row = tl.program_id(0).to(tl.int64)
    head = heads.to(tl.int64).to(tl.pointer_type(tl.int64)) + row * 8
    out = outs.to(tl.int64).to(tl.pointer_type(tl.int64)) + row * 16
    part = tl.load(head).to(tl.pointer_type(tl.int64))
    programs = tl.load(head + 1)
    count = tl.load(head + 2)
    form = tl.load(head + 3)
    times = tl.load(head + 4)
    integer = (form == INT) | (form == UINT64) | (form == BYTE)
    lanes = tl.arange(0, block)
    low = tl.full([block], float("inf"), tl.float64)
    high = tl.full([block], float("-inf"), tl.float64)
    low_whole = tl.full([block], 2**63 - 1, tl.int64)
    high_whole = tl.full([block], -(2**63), tl.int64)
    largest = tl.zeros([block], tl.float64)
    finites = tl.zeros([block], tl.int64)
    zeros = tl.zeros([block], tl.int64)
    negatives = tl.zeros([block], tl.int64)
    nans = tl.zeros([block], tl.int64)
    ups = tl.zeros([block], tl.int64)
    downs = tl.zeros([block], tl.int64)
    for start in range(0, programs, block):
        index = start + lanes
        here = index < programs
        lows = _take(part, programs, index, here, 0)
        highs = _take(part, programs, index, here, 1)
        low = tl.minimum(low, tl.where(here, _real(lows), float("inf")))
        high = tl.maximum(high, tl.where(here, _real(highs), float("-inf")))
        low_whole = tl.minimum(low_whole, tl.where(here, lows, 2**63 - 1))
        high_whole = tl.maximum(high_whole, tl.where(here, highs, -(2**63)))
        largest = tl.maximum(largest, tl.abs(_real(_take(part, programs, index, here, 2))))
        largest = tl.maximum(largest, _real(_take(part, programs, index, here, 4)))
        finites += _take(part, programs, index, here, 5)
        zeros += _take(part, programs, index, here, 6)
        negatives += _take(part, programs, index, here, 7)
        nans += _take(part, programs, index, here, 8)
        ups += _take(part, programs, index, here, 9)
        downs += _take(part, programs, index, here, 10)
    finite = tl.sum(finites, 0)
    number = tl.maximum(finite, 1).to(tl.float64)
    unit = tl.max(largest, 0)
    unit = tl.where(unit > 0.0, unit, 1.0)
    means = tl.zeros([block], tl.float64)
    absolutes = tl.zeros([block], tl.float64)
    squares = tl.zeros([block], tl.float64)
    for start in range(0, programs, block):
        index = start + lanes
        here = index < programs
        share = _take(part, programs, index, here, 5).to(tl.float64) / number
        each = _real(_take(part, programs, index, here, 2))
        means += each * share
        absolutes += _real(_take(part, programs, index, here, 3)) * share
        spread = _real(_take(part, programs, index, here, 4)) / unit
        squares += share * (spread * spread + (each / unit) * (each / unit))
    mean = tl.sum(means, 0)
    absolute = tl.sum(absolutes, 0)
    spreads = tl.zeros([block], tl.float64)
    for start in range(0, programs, block):
        index = start + lanes
        here = index < programs
        share = _take(part, programs, index, here, 5).to(tl.float64) / number
        away = (_real(_take(part, programs, index, here, 2)) - mean) / unit
        spread = _real(_take(part, programs, index, here, 4)) / unit
        spreads += share * (spread * spread + away * away)
    weight = number * times.to(tl.float64)
    l2 = unit * tl.sqrt(tl.sum(squares, 0) * weight)
    std = unit * tl.sqrt(tl.sum(spreads, 0))
    zero = tl.sum(zeros, 0)
    negative = tl.sum(negatives, 0)
    nan = tl.sum(nans, 0)
    up = tl.sum(ups, 0)
    down = tl.sum(downs, 0)
    result = tl.zeros([16], tl.int64)
    if integer:
        least = tl.min(low_whole, 0)
        most = tl.max(high_whole, 0)
        if tl.abs(mean) * number < 4.6e18:
            mean = nan.to(tl.float64) / number
        if absolute * number < 4.6e18:
            absolute = up.to(tl.float64) / number
        std = tl.where(least == most, 0.0, std)
        least = tl.where(form == UINT64, least ^ LOW_BIT, least)
        most = tl.where(form == UINT64, most ^ LOW_BIT, most)
        nan = nan * 0
        up = up * 0
        down = down * 0
        result = _result(result, 0, tl.where((form == UINT64) & (most < 0), nan + 2, nan + 1))
        result = _result(result, 2, least)
        result = _result(result, 3, most)
    else:
        bottom = tl.min(low, 0)
        top = tl.max(high, 0)
        nothing = nan == count
        mean = tl.minimum(tl.maximum(mean, bottom), top)
        same = bottom == top
        std = tl.where(same, 0.0, std)
        absolute = tl.where(same, tl.abs(mean), absolute)
        l2 = tl.where(same, tl.abs(mean) * tl.sqrt(weight), l2)
        mean = tl.where(finite == 0, float("nan"), mean)
        absolute = tl.where(finite == 0, float("nan"), absolute)
        l2 = tl.where(finite == 0, float("nan"), l2)
        std = tl.where(finite == 0, float("nan"), std)
        result = _result(result, 0, nan * 0)
        result = _result(result, 2, tl.where(nothing, float("nan"), bottom))
        result = _result(result, 3, tl.where(nothing, float("nan"), top))
    result = _result(result, 1, count * times)
    result = _result(result, 4, mean)
    result = _result(result, 5, absolute)
    result = _result(result, 6, l2)
    result = _result(result, 7, std)
    result = _result(result, 8, nan * times)
    result = _result(result, 9, up * times)
    result = _result(result, 10, down * times)
    result = _result(result, 11, zero * times)
    result = _result(result, 12, negative * times)
    result = _result(result, 13, (count - nan - zero - negative) * times)
    # One store of 128 bytes: `outs` is memory of the host.
    tl.store(out + tl.arange(0, 16), result)

# mypy: ignore-errors
# ruff: noqa: SIM102, SIM109 - conditions of the compiler, and Triton has no `in` for them
"""The Triton kernels of rows: partial rows of every program, and the finishing of rows.

A tensor is cut into groups of 16 KiB; group g belongs to program g modulo the number of programs,
and what is left over to one more program. Each program writes its own partial row: there are no
atomics, nothing to initialise, and the result depends on the elements and their number only.

The hot loop is lean: float32 within a thread's part of a group (16 to 64 elements, in two passes
over registers: first the mean, then the squares of the distances from it), float64 across groups.
It knows neither NaN nor infinities. When its sums come out not finite, or so small that squares
lost digits, the program reads its part again in float64 and counts everything.
"""

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
WIDTH = tl.constexpr(4)
"""Elements per thread in the exact loop."""
HUGE, TINY = tl.constexpr(2.0**600), tl.constexpr(2.0**-600)
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
def _place(number, inner, rows, inner_step, row_step, outer_step):
    """How far from the first an element is: layout.py, Runs. Numbers are 32-bit, places 64-bit."""
    row = number // inner
    within = (number - row * inner).to(tl.int64) * inner_step
    outer = row // rows
    return within + (row - outer * rows).to(tl.int64) * row_step + outer.to(tl.int64) * outer_step


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
def _join(sum0, sum1, low, high, count, sum0_, sum1_, low_, high_, count_):
    """Two sums, a minimum, a maximum and a count of two threads: one exchange for all of them."""
    low = tl.minimum(low, low_)
    return sum0 + sum0_, sum1 + sum1_, low, tl.maximum(high, high_), count + count_


@triton.jit
def _join_lean(
    sum0, sum1, sum2, low, high, count, sum0_, sum1_, sum2_, low_, high_, count_
):  # fmt: skip
    """The same with three sums."""
    low = tl.minimum(low, low_)
    high = tl.maximum(high, high_)
    return sum0 + sum0_, sum1 + sum1_, sum2 + sum2_, low, high, count + count_


@triton.jit
def _join_rare(a, b, c, d, e, f, a_, b_, c_, d_, e_, f_):
    """Six sums of two threads."""
    return a + a_, b + b_, c + c_, d + d_, e + e_, f + f_


@triton.jit
def _put(part, pid, programs, slot: tl.constexpr, value):
    """Store one number of a partial row."""
    tl.store(part + (slot * programs + pid), value.to(tl.int64, bitcast=True))


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


@triton.jit(do_not_specialize=["table", "x", "n", "part", "head", "times"])
def parts(
    table: tl.int64, x: tl.int64, n: tl.int64, part: tl.int64, head: tl.int64, times: tl.int64,
    load: tl.constexpr, form: tl.constexpr, group: tl.constexpr, aligned: tl.constexpr,
    precise: tl.constexpr, limit: tl.constexpr, threads: tl.constexpr, unroll: tl.constexpr,
    ptx: tl.constexpr,
):  # fmt: skip
    """Partial rows of one tensor, or of the tensors of a table (its address, or 0).

    Grid: (programs, 1), or (any number, number of tensors); with fewer programs than there are
    partial rows, each does several. An entry of the table is x, n, part, head, times: addresses of
    the elements, of the partial rows and of the head of the row, the number of elements, and how
    often each of them counts. With a table, `x` says up to how many groups a tensor is cut
    coarsely.
    """
    table = table.to(tl.int64)
    coarse = table * 0 + 64
    if table != 0:
        coarse = x.to(tl.int64)
        entry = table.to(tl.pointer_type(tl.int64)) + tl.program_id(1) * 5
        x = tl.load(entry)
        n = tl.load(entry + 1)
        part = tl.load(entry + 2)
        head = tl.load(entry + 3)
        times = tl.load(entry + 4)
    none = tl.program_id(0) * 0
    n = n.to(tl.int64)
    _, programs = _cut(n, coarse, group, limit)
    # The first one writes the head, also of a tensor whose memory is gone.
    count = tl.maximum(programs, 1)
    for pid in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        _program(
            pid, coarse, x, n, part, head, times, none, none, none, none, none,
            load, form, group, False, aligned, precise, limit, threads, unroll, ptx,
        )  # fmt: skip


_RUNS = ["inner", "rows", "inner_step", "row_step", "outer_step"]


@triton.jit(do_not_specialize=["x", "n", "part", "head", "times", *_RUNS])
def parts_of_runs(
    x: tl.int64, n: tl.int64, part: tl.int64, head: tl.int64, times: tl.int64,
    inner: tl.int64, rows: tl.int64, inner_step: tl.int64, row_step: tl.int64,
    outer_step: tl.int64,
    load: tl.constexpr, form: tl.constexpr, group: tl.constexpr, aligned: tl.constexpr,
    precise: tl.constexpr, limit: tl.constexpr, threads: tl.constexpr, unroll: tl.constexpr,
    ptx: tl.constexpr,
):  # fmt: skip
    """Partial rows of one tensor with gaps, whose runs (layout.py) are given; grid: (programs,).

    It is `aligned` if the runs consist of whole vectors of 16 bytes.
    """
    _program(
        tl.program_id(0).to(tl.int64), x.to(tl.int64) * 0 + 64,
        x, n.to(tl.int64), part, head, times,
        inner.to(tl.int32), rows.to(tl.int32),
        inner_step.to(tl.int64), row_step.to(tl.int64), outer_step.to(tl.int64),
        load, form, group, True, aligned, precise, limit, threads, unroll, ptx,
    )  # fmt: skip


@triton.jit
def _cut(n, coarse, group: tl.constexpr, limit: tl.constexpr):
    """How many programs read whole groups, and how many there are: forms.py, `programs`."""
    full = n // group
    most = tl.where(full > 2048, limit + limit // 2, limit)
    whole = tl.where(full <= coarse, (full + 7) // 8, full)
    whole = tl.minimum(whole, tl.maximum(most, (full + 999) // 1000))
    return whole, whole + (n > full * group).to(tl.int64)


@triton.jit
def _program(
    pid, coarse, x, n, part, head, times, inner, rows, inner_step, row_step, outer_step,
    load: tl.constexpr, form: tl.constexpr, group: tl.constexpr, strided: tl.constexpr,
    aligned: tl.constexpr, precise: tl.constexpr, limit: tl.constexpr, threads: tl.constexpr,
    unroll: tl.constexpr, ptx: tl.constexpr,
):  # fmt: skip
    """The partial row of one program, and the head of the row by the first of them."""
    x = x.to(tl.int64)
    part = part.to(tl.int64)
    head = head.to(tl.int64)
    full = n // group
    whole, programs = _cut(n, coarse, group, limit)
    if pid == 0:
        about = head.to(tl.pointer_type(tl.int64))
        tl.store(about, part)
        tl.store(about + 1, programs)
        tl.store(about + 2, n)
        tl.store(about + 3, programs * 0 + form)
        tl.store(about + 4, times)
    if pid < programs:
        base = x.to(tl.pointer_type(load))
        if aligned:
            base = tl.multiple_of(base, 16)
        own = part.to(tl.pointer_type(tl.int64))
        sound = pid < 0
        if form <= BYTE:
            if pid < whole:
                sound = _lean(
                    base, pid, full, whole, own, pid, programs,
                    inner, rows, inner_step, row_step, outer_step, strided, aligned,
                    form, group, precise, threads, unroll, ptx,
                )  # fmt: skip
        if not sound:
            first = tl.where(pid < whole, pid, full)
            stop = tl.where(pid < whole, full, full + 1)
            step = tl.maximum(whole, 1)
            one = n.to(tl.float64) * 0.0 + 1.0
            fine, largest = _exact(
                base, first, stop, step, n, own, pid, programs, one,
                inner, rows, inner_step, row_step, outer_step, strided, form, group, threads,
            )  # fmt: skip
            if form == DOUBLE or form == COMPLEX:
                if not fine:
                    scale = tl.where(largest > 1.0, one * TINY, one * HUGE)
                    _exact(
                        base, first, stop, step, n, own, pid, programs, scale,
                        inner, rows, inner_step, row_step, outer_step, strided,
                        form, group, threads,
                    )  # fmt: skip


@triton.jit
def _take(part, programs, index, here, slot: tl.constexpr):
    """One number of some partial rows."""
    return tl.load(part + slot * programs + index, mask=here, other=0)


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

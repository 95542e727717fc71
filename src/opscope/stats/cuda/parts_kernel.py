# mypy: ignore-errors
# ruff: noqa: SIM102, SIM109 - conditions of the compiler, and Triton has no `in` for them
"""The Triton kernels that read tensors: partial rows of every program.

A tensor is cut into groups of 16 KiB; group g belongs to program g modulo the number of programs,
and what is left over to one more program. Each program writes its own partial row: there are no
atomics, nothing to initialise, and the result depends on the elements and their number only.

Whole groups go through the loop of `lean_kernel`. When its sums come out not finite, or so small
that squares lost digits, the program reads its part again with that of `exact_kernel`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from opscope.stats.cuda.exact_kernel import _exact
from opscope.stats.cuda.kernel_basics import BYTE, COMPLEX, DOUBLE
from opscope.stats.cuda.lean_kernel import _lean

HUGE, TINY = tl.constexpr(2.0**600), tl.constexpr(2.0**-600)


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
    """Return how many programs read whole groups, and how many there are: forms.py, `programs`."""
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

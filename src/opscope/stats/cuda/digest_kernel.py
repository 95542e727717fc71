# mypy: ignore-errors
"""The Triton kernel of the digest; `digest` has the definition."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _mix(z, multiplier: tl.constexpr):
    z = (z ^ (z >> 32)) * multiplier
    z = (z ^ (z >> 29)) * multiplier
    return z ^ (z >> 32)


@triton.jit(do_not_specialize=["x", "size", "out"])
def lanes(
    x: tl.int64, size: tl.int64, out: tl.int64,
    first: tl.constexpr, second: tl.constexpr, first_step: tl.constexpr,
    second_step: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Two sums of mixed words for every program; grid: (programs,). `x` is a multiple of 16."""
    size = size.to(tl.int64)
    words = size // 8
    pid = tl.program_id(0).to(tl.int64)
    programs = tl.num_programs(0)
    base = tl.multiple_of(x.to(tl.pointer_type(tl.uint64)), 16)
    one = tl.zeros([block], tl.uint64)
    two = tl.zeros([block], tl.uint64)
    for start in range(pid * block, words, programs * block):
        index = start + tl.arange(0, block)
        here = index < words
        if start + block <= words:
            word = tl.load(base + index)
        else:
            word = tl.load(base + index, mask=here, other=0)
        place = (index + 1).to(tl.uint64)
        one += tl.where(here, _mix(word + place * first_step, first), 0)
        two += tl.where(here, _mix(word + place * second_step, second), 0)
    total_one = tl.sum(one, 0)
    total_two = tl.sum(two, 0)
    if (pid == 0) & (size > words * 8):
        spot = tl.arange(0, 8)
        rest = tl.load(
            x.to(tl.pointer_type(tl.uint8)) + words * 8 + spot,
            mask=words * 8 + spot < size,
            other=0,
        )
        word = tl.sum(rest.to(tl.uint64) << (spot * 8).to(tl.uint64), 0)
        place = (words + 1).to(tl.uint64)
        total_one += _mix(word + place * first_step, first)
        total_two += _mix(word + place * second_step, second)
    spot = out.to(tl.pointer_type(tl.uint64)) + pid * 2
    tl.store(spot, total_one)
    tl.store(spot + 1, total_two)

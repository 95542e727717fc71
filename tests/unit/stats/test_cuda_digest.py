"""The digest: one number on CPU, on GPU and in Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_device import DEVICE, examples, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.stats.cuda.digest import MULTIPLIERS, STEPS, digest, digest_of_array

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MASK = 2**64 - 1


def plain(data: bytes) -> int:
    """The definition, word by word."""

    def mix(z: int, multiplier: int) -> int:
        z &= MASK
        z = (z ^ (z >> 32)) * multiplier & MASK
        z = (z ^ (z >> 29)) * multiplier & MASK
        return z ^ (z >> 32)

    padded = data + bytes(-len(data) % 8)
    sums = [0, 0]
    for place in range(0, len(padded), 8):
        word = int.from_bytes(padded[place : place + 8], "little")
        for half in (0, 1):
            sums[half] += mix(word + (place // 8 + 1) * STEPS[half], MULTIPLIERS[half])
    high = mix(sums[0] + len(data) * STEPS[1], MULTIPLIERS[1])
    return high << 64 | mix(sums[1] + len(data) * STEPS[0], MULTIPLIERS[0])


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200), st.integers(0, 9))
def test_one_number_everywhere(data: bytes, skipped: int) -> None:
    tensor = torch.tensor(list(bytes(skipped) + data), dtype=torch.uint8).to(DEVICE)[skipped:]
    assert digest(tensor).value() == digest_of_array(np.frombuffer(data, np.uint8)) == plain(data)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_large_tensors_of_any_dtype(dtype: str) -> None:
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(100_003, generator=generator).to(getattr(torch, dtype))
    data = tensor.view(torch.uint8).numpy()
    assert digest(tensor.to(DEVICE)).value() == digest_of_array(data) == plain(data.tobytes())


def test_every_bit_and_every_place_counts() -> None:
    base = torch.zeros(4000).to(DEVICE)
    seen = {digest(base).value(), digest(base[1:]).value(), digest(torch.empty(0)).value()}
    for place in (0, 1, 2047, 3999):
        for value in (-0.0, 1.0, 2.0**-149, float("nan")):
            other = base.clone()
            other[place] = value
            seen.add(digest(other).value())
    swapped = torch.arange(4000.0).to(DEVICE)
    seen |= {digest(swapped).value(), digest(swapped.flip(0)).value()}
    assert len(seen) == 3 + 16 + 2


def test_elements_count_in_logical_order() -> None:
    tensor = torch.arange(6.0).reshape(2, 3).to(DEVICE)
    moved = tensor.t().contiguous().t()
    assert digest(moved).value() == digest(tensor).value() != digest(tensor.t()).value()
    half = torch.arange(7, dtype=torch.float16).to(DEVICE)
    assert digest(half[1:]).value() == digest(half[1:].clone()).value()


def test_halves_are_independent() -> None:
    values = [digest_of_array(np.array([number])) for number in range(2000)]
    for shift in (0, 64):
        assert len({value >> shift & MASK for value in values}) == 2000

"""What is remembered of a step, should something go wrong in it."""

from __future__ import annotations

import random

import numpy as np
import torch

from opscope.capture.kept_state import RandomStates


def test_random_states_are_those_of_the_moment() -> None:
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    np.random.rand(7)  # so that its position is not that after a seed
    states = RandomStates()
    expected = torch.rand(3), [random.random() for _ in range(3)], np.random.rand(3)

    found = states.tensors()
    torch.set_rng_state(found["torch"])
    random.setstate((3, tuple(found["python"].tolist()), None))
    key = found["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key[:-1], int(key[-1])))
    assert torch.equal(torch.rand(3), expected[0])
    assert [random.random() for _ in range(3)] == expected[1]
    assert (np.random.rand(3) == expected[2]).all()


def test_another_kind_of_generator_has_no_state_here() -> None:
    usual = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        assert "numpy" not in RandomStates().tensors()
    finally:
        np.random.set_bit_generator(usual)
    assert "numpy" in RandomStates().tensors()

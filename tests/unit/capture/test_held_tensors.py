"""Tensors that are held as they are, and copied only before something writes to them."""

from __future__ import annotations

import pytest
import torch

from opscope.capture.held_tensors import HeldTensors


class Announcing:
    """Notes which memory is to be announced."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.let_go_of = 0

    def hold(self, storage: int) -> None:
        self.held.append(storage)

    def let_go(self) -> None:
        self.let_go_of += 1


@pytest.fixture
def tensors() -> HeldTensors:
    return HeldTensors()


def test_what_is_not_written_to_is_not_copied(tensors: HeldTensors) -> None:
    x, other = torch.ones(3), torch.ones(3)
    held = tensors.hold(x)
    tensors.before_write(other)
    assert held.tensor is x
    assert held.is_of(x) and not held.is_of(other)


def test_a_write_to_the_memory_leaves_a_copy(tensors: HeldTensors) -> None:
    x = torch.ones(4)
    held, part = tensors.hold(x), tensors.hold(x[2:])
    tensors.before_write(x[:1])
    x.zero_()
    assert held.tensor.tolist() == [1.0] * 4
    assert part.tensor.tolist() == [1.0] * 2
    assert held.is_of(x), "a copy of it"


def test_a_copy_is_made_once(tensors: HeldTensors) -> None:
    x = torch.ones(2)
    held = tensors.hold(x)
    tensors.before_write(x)
    copy = held.tensor
    x.zero_()
    tensors.before_write(x)
    assert held.tensor is copy


def test_copies_have_no_history(tensors: HeldTensors) -> None:
    x = torch.ones(2, requires_grad=True)
    held = tensors.hold(x * 2)
    tensors.before_write(held.tensor)
    assert not held.tensor.requires_grad


def test_native_code_announces_what_is_held(tensors: HeldTensors) -> None:
    tensors.writes = announcing = Announcing()
    x = torch.ones(2)
    tensors.hold(x)
    assert announcing.held == [x.untyped_storage().data_ptr()]
    tensors.hold(torch.ones(2).to_sparse())
    assert len(announcing.held) == 1, "memory that cannot be told of is not"

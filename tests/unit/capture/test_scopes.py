"""Scopes: one for each position of a module in the tree of calls, named by attributes."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import nn

from opscope.capture.scopes import MOST_ALIKE, Scope, scope_at


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 1), nn.ReLU())


@pytest.fixture
def root() -> Scope:
    return Scope("Default", None, "")


def test_paths_are_made_of_attributes_and_classes(root: Scope) -> None:
    block = Block()
    network = root.child(block, True)
    assert (network.path, network.module_class) == ("Default/network-Block", "Block")
    inner = network.child(block.layers[0], True)
    assert inner.path == "Default/network-Block/layers-Sequential/0-Linear"
    bare = Scope("Default", None, "").child(block, False)
    assert bare.path == "Default/network"


def test_a_scope_is_made_at_the_first_call(root: Scope) -> None:
    block, another = Block(), Block()
    assert root.child(block, True) is root.child(block, True)
    other = root.child(another, True)
    assert other.path == "Default/network1-Block", "another module of the same name"
    assert scope_at("Default/network1-Block") is other


def test_modules_that_are_no_part_of_their_caller(root: Scope) -> None:
    block = Block()
    network = root.child(block, True)
    assert network.child(block, True).path.endswith("/self-Block")
    assert network.child(nn.Tanh(), True).path.endswith("/unnamed-Tanh")


def test_a_caller_of_many_modules_is_gone_through_once(root: Scope) -> None:
    many = nn.Sequential(*(nn.Linear(1, 1) for _ in range(50)))
    network = root.child(many, True)
    with mock.patch.object(nn.Module, "named_modules", autospec=True) as walk:
        walk.side_effect = lambda self: iter([(str(n), part) for n, part in enumerate(many)])
        names = [network.child(part, True).path.rpartition("/")[2] for part in many]
    assert names == [f"{number}-Linear" for number in range(50)]
    assert walk.call_count == 1


def test_modules_made_anew_for_each_call_are_not_looked_for_each_time(root: Scope) -> None:
    block = Block()
    network = root.child(block, True)
    inner = network.child(block.layers[0], True)
    with mock.patch.object(nn.Module, "named_modules", autospec=True, return_value=()) as walk:
        for _ in range(3 * MOST_ALIKE):
            network.child(nn.Tanh(), True)
    assert walk.call_count == MOST_ALIKE
    assert network.child(block.layers[0], True) is inner
    assert network.child(block.layers[1], True).path.endswith("/layers-Sequential/1-ReLU")


def test_parts_that_come_after_many_nameless_modules_have_names(root: Scope) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ModuleList()

    network = Block()
    scope = root.child(network, True)
    for _ in range(MOST_ALIKE + 6):
        scope.child(nn.Softmax(-1), True)
    network.late = nn.Softmax(-1)
    assert scope.child(network.late, True).path.endswith("/late-Softmax")
    scope.child(nn.Softmax(-1), True)
    network.late = nn.Softmax(0)  # as many parts as before
    assert scope.child(network.late, True).path.endswith("/late1-Softmax")
    scope.child(nn.Softmax(-1), True)
    network.inner.append(nn.Softmax(-1))
    assert scope.child(network.inner[0], True).path.endswith("/inner-ModuleList/0-Softmax")


def test_modules_that_are_put_elsewhere(root: Scope) -> None:
    first, second, late = nn.Linear(1, 1), nn.Linear(1, 1), nn.Tanh()
    pair = nn.Sequential(first, second)
    network = root.child(pair, True)
    assert network.child(first, True).path.endswith("/0-Linear")
    pair[0], pair[1] = second, first
    assert network.child(second, True).path.endswith("/01-Linear"), "0 was another"
    pair.append(late)
    assert network.child(late, True).path.endswith("/2-Tanh")
    del pair[2]
    assert network.child(nn.Tanh(), True).path.endswith("/unnamed-Tanh")


def test_optimizers_and_data(root: Scope) -> None:
    first, second = (torch.optim.SGD(Block().parameters(), lr=0.1) for _ in range(2))
    assert root.optimizer(first, True).path == "Default/optimizer-SGD"
    assert root.optimizer(first, True) is root.optimizer(first, True)
    assert root.optimizer(second, True).path == "Default/optimizer1-SGD"
    data = root.data()
    assert data is root.data() and data.path == "Default/data"
    assert data.child(nn.Tanh(), True).path == "Default/data/unnamed-Tanh"


def test_modules_made_anew_for_each_call_share_the_last_name(root: Scope) -> None:
    blocks = [Block() for _ in range(2 * MOST_ALIKE)]  # at as many addresses
    paths = [root.child(block, True).path for block in blocks]
    assert len(set(paths)) == len(root.children) == MOST_ALIKE
    assert paths[MOST_ALIKE - 1 :] == [paths[-1]] * (MOST_ALIKE + 1)
    assert root.child(blocks[-2], True) is root.child(blocks[-1], True)
    assert root.child(blocks[0], True).path == paths[0]


def test_a_module_at_the_address_of_one_that_died_is_another(root: Scope) -> None:
    block = Block()
    scope = root.child(block, True)
    scope.module = lambda: None  # as a weak reference to a dead module says
    assert root.child(block, True) is not scope

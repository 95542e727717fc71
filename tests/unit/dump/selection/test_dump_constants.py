from __future__ import annotations

import torch

from opscope.dump.selection.constants import Constants, is_constant
from opscope.events import Outside


def test_what_is_one() -> None:
    assert is_constant(Outside("outside", ""))
    for kind in ("parameter", "buffer", "state", "batch"):
        assert not is_constant(Outside(kind, "x"))
    assert not is_constant(None)


def test_equal_contents_have_one_number() -> None:
    constants = Constants()
    table = torch.arange(4.0)
    assert constants.new(0, table) == 0
    assert constants.new(0, table) is None
    assert constants.new(0, torch.arange(4.0)) is None
    assert constants.new(0, torch.arange(4)) == 1, "another data type"
    assert constants.new(0, torch.arange(4.0).reshape(2, 2)) == 2, "another shape"
    assert constants.new(1, table) == 0, "another graph counts anew"
    table += 1
    assert constants.new(0, table) == 3, "it has changed"


def test_what_an_operator_made_is_none() -> None:
    constants = Constants()
    hidden = torch.arange(3.0)
    constants.made(hidden)
    constants.end_step()
    assert constants.new(0, hidden) is None
    with_history = torch.ones(2, requires_grad=True) * 2
    assert constants.new(0, with_history) is None
    constants.end_step()
    constants.end_step()
    assert constants.new(0, hidden) == 0, "two steps later it counts as one"


def test_tensors_without_numbers_are_left_out() -> None:
    assert Constants().new(0, torch.zeros(2, 2).to_sparse()) is None

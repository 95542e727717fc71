"""The native map of tensors that are known in a step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from opscope.capture import hook
from opscope.events import Outside

MADE = 2000
SOURCE = Outside("batch", "x")


@pytest.fixture
def native() -> Any:
    module = hook.load()
    if module is None:
        pytest.skip("there is no native observer")
    return module


def test_memory_of_tensors_that_are_gone_is_used_again(native) -> None:
    known = native.Known()
    tensors, storages = set(), set()
    for index in range(MADE):
        tensor = torch.empty(3)
        assert known.get(native.key(tensor)) is None
        known.put(native.key(tensor), SOURCE, index)
        tensors.add(native.key(tensor))
        storages.add(tensor.untyped_storage()._cdata)
    assert len(tensors) < MADE // 4
    assert len(storages) < MADE // 4


def test_tensors_that_are_alive_stay_known(native) -> None:
    known = native.Known()
    kept = []
    for index in range(MADE):
        tensor = torch.empty(3)
        known.put(native.key(tensor), SOURCE, index)
        if index % 3 == 0:
            kept.append((tensor, index))
    assert [known.call_of(native.key(tensor)) for tensor, _ in kept] == [at for _, at in kept]


def test_a_view_outlives_what_it_is_of(native) -> None:
    known = native.Known()
    base = torch.zeros(4)
    view = base[1:]
    known.put(native.key(base), SOURCE, 1)
    known.put_view(native.key(view), native.key(base), SOURCE, SOURCE, 2)
    del base
    for index in range(MADE):
        tensor = torch.empty(3)
        known.put(native.key(tensor), SOURCE, 10 + index)
    assert known.call_of(native.key(view)) == 2
    known.put_write(native.key(view), SOURCE, 5)
    assert known.call_of(native.key(view)) == 5

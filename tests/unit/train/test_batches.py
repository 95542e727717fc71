from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from opscope.train.batches import Batch, batches_of, count_of, moved, split

SAMPLES = TensorDataset(torch.arange(10.0), torch.arange(10))


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(range(5))


def test_loaders_and_lists_are_taken_as_they_are() -> None:
    loader = DataLoader(SAMPLES, batch_size=5)
    batches = [(1, 2)]
    assert batches_of(loader, 32, 2) is loader
    assert batches_of(batches, 32, 2) is batches
    assert (count_of(loader), count_of(batches)) == (2, 1)


def test_of_a_dataset_batches_are_made() -> None:
    batches = batches_of(SAMPLES, 4, 2)
    assert [len(label) for _, label in batches] == [4, 4, 2]
    assert [len(label) for _, label in batches] == [4, 4, 2]
    assert count_of(batches) == 3
    assert count_of(batches_of(Stream(), 2)) is None


@pytest.mark.parametrize("dataset", [torch.ones(3), "text", {"a": 1}, 7, None])
def test_what_is_no_dataset(dataset: object) -> None:
    with pytest.raises(TypeError, match="a DataLoader, a Dataset or batches"):
        batches_of(dataset, 32)


def test_an_iterator_is_good_for_one_epoch_only() -> None:
    once = iter([1, 2])
    assert batches_of(once, 32, 1) is once
    with pytest.raises(TypeError, match="can be read only once, not in each of 2 epochs"):
        batches_of(once, 32, 2)


def test_the_last_part_is_the_label() -> None:
    assert split((1, 2), True) == Batch((1,), {}, 2)
    assert split([1, 2, 3], True) == Batch((1, 2), {}, 3)
    assert split((1, 2), False) == Batch((1, 2), {}, 2)
    assert split(1, False) == Batch((1,), {}, None)
    with pytest.raises(ValueError, match=r"must be \(data, label\)"):
        split(torch.ones(2), True)


def test_batches_that_are_dicts() -> None:
    batch = {"ids": 1, "labels": 2}
    assert split(batch, True) == Batch((), {"ids": 1}, 2)
    assert split(batch, False) == Batch((), {"ids": 1, "labels": 2}, 2)
    assert batch == {"ids": 1, "labels": 2}
    with pytest.raises(ValueError, match="needs one of labels, label, targets"):
        split({"ids": 1}, True)


def test_everything_is_moved() -> None:
    pair = namedtuple("pair", "a b")
    meta = torch.device("meta")
    value = {"a": torch.ones(1), "b": [torch.ones(1), (torch.ones(1), "x")], "c": None}
    found = moved(value, meta)
    assert found["a"].device == found["b"][0].device == found["b"][1][0].device == meta
    assert (found["b"][1][1], found["c"]) == ("x", None)
    assert moved(pair(torch.ones(1), 1), meta).a.device == meta

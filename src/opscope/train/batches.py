"""Datasets as batches: a DataLoader, a Dataset, or anything that can be iterated again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from opscope.messages import say_once

LABELS = ("labels", "label", "targets", "target", "y")
"""The names that a batch that is a dict may have for its label."""


class Batch(NamedTuple):
    """One batch: what the network is called with, and what its output is compared with."""

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    label: Any


def batches_of(dataset: Any, batch_size: int, epochs: int = 1) -> Iterable[Any]:
    """Find what to iterate over once per epoch, or raise an error that says what is wrong."""
    if isinstance(dataset, Dataset):
        say_once(
            f"a Dataset has samples: batches of {batch_size} are made of {type(dataset).__name__}, "
            "in order; give a DataLoader to choose otherwise",
            "dataset",
        )
        loader: Iterable[Any] = DataLoader(dataset, batch_size=batch_size)
        return loader
    if isinstance(dataset, Iterator) and epochs > 1:
        raise TypeError(
            f"a {type(dataset).__name__} can be read only once, not in each of {epochs} epochs: "
            "give a DataLoader or a list of batches"
        )
    if isinstance(dataset, torch.Tensor | str | bytes | Mapping) or not hasattr(
        dataset, "__iter__"
    ):
        kind = type(dataset).__name__
        raise TypeError(f"a dataset must be a DataLoader, a Dataset or batches, not {kind}")
    found: Iterable[Any] = dataset
    return found


def count_of(batches: Iterable[Any]) -> int | None:
    """Count the batches, if that is known."""
    try:
        return len(batches) if isinstance(batches, Sized) else None
    except TypeError:  # the DataLoader of an iterable dataset
        return None


def split(element: Any, has_label: bool) -> Batch:
    """A batch as it is used: with a loss function the last element is its label.

    >>> split(("image", "mask", "label"), True)
    Batch(inputs=('image', 'mask'), named={}, label='label')
    """
    if isinstance(element, Mapping):
        return _split_named(dict(element), has_label)
    parts = tuple(element) if isinstance(element, tuple | list) else (element,)
    if not has_label:
        return Batch(parts, {}, parts[-1] if len(parts) > 1 else None)
    if len(parts) < 2:
        raise ValueError(
            "a batch must be (data, label) where there is a loss function; "
            f"this one is {type(element).__name__}"
        )
    return Batch(parts[:-1], {}, parts[-1])


def _split_named(element: dict[str, Any], has_label: bool) -> Batch:
    key = next((name for name in LABELS if name in element), None)
    if not has_label:
        return Batch((), element, None if key is None else element[key])
    if key is None:
        raise ValueError(f"a batch that is a dict needs one of {', '.join(LABELS)} as its label")
    label = element.pop(key)
    return Batch((), element, label)


def moved(value: Any, device: torch.device) -> Any:
    """A batch with all its tensors on a device."""
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {name: moved(part, device) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(part, device) for part in value))
    if isinstance(value, tuple | list):
        return type(value)(moved(part, device) for part in value)
    return value

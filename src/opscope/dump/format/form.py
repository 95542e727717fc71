"""The form that values are saved in: the order in memory, and whole or as a sample."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from opscope.dump.format.npy import Array
from opscope.dump.format.subject import FORMAT, StoredType
from opscope.stats.torch_values import dtype_name, shape_of

_LAYOUTS = {4: ("NHWC", "channels_last"), 5: ("NDHWC", "channels_last_3d")}
"""By number of dimensions: formats with the channels last, and what torch calls them."""


class FileForm(NamedTuple):
    """`keeps_layout`: elements as they lie in memory; `samples`: so many of them, 0 for all."""

    keeps_layout: bool = False
    samples: int = 0

    def kind(self, tensor: Any) -> StoredType:
        """Return what the file of this tensor is called after."""
        layout = layout_of(tensor) if self.keeps_layout else FORMAT
        return StoredType(dtype_name(tensor), shape_of(tensor), layout)

    def cuts(self, count: int) -> bool:
        """Tell whether a tensor of so many elements is saved in part."""
        return 0 < self.samples < count

    def sample(self, array: Array) -> Array:
        """Return what is saved of an array: itself, or a sample."""
        if not self.cuts(array.size):
            return array
        picked: Array = array[np.unravel_index(spots(array.size, self.samples), array.shape)]
        return picked


def layout_of(tensor: Any) -> str:
    """The format of a tensor's memory: with the channels last, or the default."""
    name, torch_name = _LAYOUTS.get(tensor.ndim, (FORMAT, ""))
    if not torch_name or tensor.is_contiguous():
        return FORMAT
    import torch

    is_last = tensor.is_contiguous(memory_format=getattr(torch, torch_name))
    return name if is_last else FORMAT


def as_it_lies(array: Array, layout: str) -> Array:
    """The array, whose axes are in logical order, with its axes in the order of the format."""
    return array if layout == FORMAT else np.moveaxis(array, 1, -1)


@lru_cache(maxsize=1024)
def spots(count: int, samples: int) -> Array:
    """Choose which of `count` elements make a sample: evenly spaced, with both ends."""
    if samples == 1:
        return np.zeros(1, np.int64)
    return np.arange(samples, dtype=np.int64) * (count - 1) // (samples - 1)


def sample_on_device(tensor: Any, layout: str, samples: int) -> Any:
    """A sample of a tensor, taken where it is, so that only that has to be copied."""
    tensor = tensor.detach()
    if layout != FORMAT:
        tensor = tensor.movedim(1, -1)
    return tensor[_spots_on(str(tensor.device), tuple(tensor.shape), samples)]


@lru_cache(maxsize=1024)
def _spots_on(device: str, shape: tuple[int, ...], samples: int) -> tuple[Any, ...]:
    import torch

    picked = np.unravel_index(spots(math.prod(shape), samples), shape)
    return tuple(torch.as_tensor(each, device=device) for each in picked)

"""Tensors as the dump needs them: an array to save, bytes to digest, a key to recognise them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from opscope.dump.npy import Array
from opscope.events import Node, Output, Source
from opscope.stats.torch_values import to_numpy, unsupported_reason


class Reading(NamedTuple):
    """A tensor's elements, and its own bytes where the elements had to be converted."""

    array: Array
    raw: Array | None
    borrowed: bool
    """Whether the array's memory is the tensor's, which changes as training goes on."""

    @property
    def nbytes(self) -> int:
        """The memory that keeping it takes."""
        return self.array.nbytes + (0 if self.raw is None else self.raw.nbytes)


def read(tensor: Any, for_digest: bool) -> Reading | str:
    """The tensor's elements, or why it has none."""
    try:
        array = to_numpy(tensor)
        if array is None:
            return unsupported_reason(tensor)
        converted = array.itemsize != tensor.element_size()
        raw = _raw_bytes(tensor) if converted and for_digest else None
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return f"{type(tensor).__name__}: {error}"
    return Reading(array, raw, tensor.is_cpu and not converted)


def _raw_bytes(tensor: Any) -> Array:
    """A copy of the tensor's bytes in logical order."""
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    data: Array = plain.view(torch.uint8).cpu().numpy().copy()
    return data


def output_of(node: Node, slot: int) -> Output | None:
    """The node's output in this slot."""
    outputs = node.outputs
    if slot < len(outputs) and outputs[slot].slot == slot:
        return outputs[slot]
    return next((output for output in outputs if output.slot == slot), None)


def key_of(tensor: Any, source: Source | None) -> Hashable:
    """What this value is recognised by when it passes again in the same step; None if it cannot be.

    The version tells of changes by operators that capture does not see, in compiled regions.
    """
    if not isinstance(source, Output) or unsupported_reason(tensor) or tensor.is_inference():
        return None
    version = tensor._version
    return source, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, version

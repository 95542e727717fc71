"""Tensors as the dump needs them: an array to save, bytes to digest, a key to recognise them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from opscope.dump.format.form import FileForm, as_it_lies, sample_on_device
from opscope.dump.format.npy import Array
from opscope.dump.format.subject import FORMAT, StoredType
from opscope.events import Node, Output, Source
from opscope.stats.torch_values import to_numpy, unsupported_reason

_MAX_REASON = 200
_NAMED = ("parameter", "buffer", "state")
"""Sources outside the step that have a name of their own."""


class StoredElements(NamedTuple):
    """A tensor's elements as its file has them, and its own bytes where those are others.

    The array may be the tensor's own memory, which changes as training goes on. It is a sample
    already if the rest is not needed.
    """

    array: Array
    raw: Array | None
    kind: StoredType


def read(
    tensor: Any, form: FileForm, measures: bool = False, for_digest: bool = False
) -> StoredElements | str:
    """The tensor's elements, all of them if it is measured too, or why it has none."""
    try:
        if form.samples and not measures and _is_cut(tensor, form):
            return _read_sample(tensor, form)
        array = to_numpy(tensor)
        if array is None:
            return unsupported_reason(tensor)
        kind = form.kind(tensor)
        other = array.itemsize != tensor.element_size() or kind.format != FORMAT
        raw = _raw_bytes(tensor) if other and for_digest else None
        return StoredElements(as_it_lies(array, kind.format), raw, kind)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return f"tensors that say {str(error)[:_MAX_REASON]!r}"


def _is_cut(tensor: Any, form: FileForm) -> bool:
    return not unsupported_reason(tensor) and form.cuts(tensor.numel())


def _read_sample(tensor: Any, form: FileForm) -> StoredElements | str:
    kind = form.kind(tensor)
    if not tensor.is_cpu:
        array = to_numpy(sample_on_device(tensor, kind.format, form.samples))
    else:
        array = to_numpy(tensor)
        array = None if array is None else form.sample(as_it_lies(array, kind.format))
    return unsupported_reason(tensor) if array is None else StoredElements(array, None, kind)


def _raw_bytes(tensor: Any) -> Array:
    """The tensor's bytes in logical order."""
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    data: Array = plain.view(torch.uint8).cpu().numpy()
    return data


def output_of(node: Node, slot: int) -> Output | None:
    """The node's output in this slot."""
    outputs = node.outputs
    if slot < len(outputs) and outputs[slot].slot == slot:
        return outputs[slot]
    return next((output for output in outputs if output.slot == slot), None)


def key_of(tensor: Any, source: Source | None, changing: bool = False) -> Hashable:
    """Return what a value is recognised by when it passes again in a step; None if it cannot be.

    The version tells of changes by operators that capture does not see, in compiled regions.
    `changing` says that an operator has just changed the tensor, which counts only after it.
    """
    if not isinstance(source, Output) and (source is None or source.kind not in _NAMED):
        return None
    try:
        version = tensor._version + changing
        return source, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, version
    except (RuntimeError, NotImplementedError):
        return None

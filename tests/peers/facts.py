"""What a program can see of its results, as plain values that compare bit for bit."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_BOOKKEEPING = ("version", "grad_fn")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Raised:
    """An exception, as far as a program can tell it from another."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """The type and the message, without addresses in memory."""
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return cls(kind, _ADDRESS.sub("0x…", str(error)))


@dataclasses.dataclass(frozen=True)
class TensorFacts:
    """One tensor: what kind it is, and its bytes."""

    kind: tuple[tuple[str, Any], ...]
    data: bytes | tuple[Any, ...]


def without_bookkeeping(facts: Any) -> Any:
    """Facts without what torch notes of how a tensor was made, but for the inputs."""
    if isinstance(facts, TensorFacts):
        kind = tuple(item for item in facts.kind if item[0] not in _BOOKKEEPING)
        data = facts.data
        if isinstance(data, tuple):
            data = tuple(map(without_bookkeeping, data))
        return TensorFacts(kind, data)
    if isinstance(facts, dict):
        return {
            key: item if key == "inputs" else without_bookkeeping(item)
            for key, item in facts.items()
        }
    return [*map(without_bookkeeping, facts)] if isinstance(facts, list) else facts


def facts_of(value: Any) -> Any:
    """A tree of tensors and other values as a tree of facts."""
    if isinstance(value, Tensor):
        return tensor_facts(value)
    if isinstance(value, dict):
        return {str(key): facts_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(facts_of(item) for item in value)]
    if isinstance(value, (int, float, complex, str, bool, bytes, Raised)) or value is None:
        return repr(value)
    return f"{type(value).__name__}: {_ADDRESS.sub('0x…', repr(value))}"


def tensor_facts(tensor: Tensor) -> TensorFacts:
    """All that can be seen of a tensor, without changing it."""
    kind: dict[str, Any] = {
        "type": type(tensor).__name__,
        "dtype": str(tensor.dtype),
        "shape": "nested" if tensor.is_nested else tuple(tensor.shape),
        "layout": str(tensor.layout),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "grad_fn": tensor.grad_fn.name() if tensor.grad_fn is not None else None,
        "is_conj": tensor.is_conj(),
        "is_neg": tensor.is_neg(),
        "is_zero_tensor": tensor._is_zerotensor(),
        "is_inference": tensor.is_inference(),
    }
    if not tensor.is_inference():
        kind["version"] = tensor._version
    if tensor.layout is torch.strided and not tensor.is_nested:
        kind["stride"] = _strides_that_matter(tensor)
        kind["offset"] = tensor.storage_offset()
    return TensorFacts(tuple(kind.items()), data_of(tensor))


def _strides_that_matter(tensor: Tensor) -> tuple[int | None, ...]:
    """Strides of dimensions along which there is something to step over."""
    if not tensor.numel():
        return ()
    return tuple(
        step if size > 1 else None for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


def data_of(tensor: Tensor) -> bytes | tuple[Any, ...]:
    """The elements as bytes; of other layouts, the facts of what they consist of."""
    with torch.no_grad():
        tensor = tensor.detach()
        if tensor.is_nested:
            return tuple(data_of(part) for part in tensor.unbind())
        if tensor.is_meta:
            return b""
        if tensor.layout is not torch.strided:
            return tuple(tensor_facts(part) for part in _parts(tensor))
        if tensor.is_quantized:
            return data_of(tensor.int_repr())
        if tensor._is_zerotensor():
            return bytes(tensor.numel() * tensor.element_size())
        plain = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that a sparse one consists of."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)


def differences(one: Any, other: Any, path: Path = ()) -> Iterator[str]:
    """Where two trees of facts differ, in words."""
    where = ".".join(path) or "result"
    if type(one) is not type(other):
        yield f"{where}: {_short(one)} became {_short(other)}"
    elif isinstance(one, dict) and one.keys() != other.keys():
        yield f"{where}: {sorted(one)} became {sorted(other)}"
    elif isinstance(one, list) and len(one) != len(other):
        yield f"{where}: {len(one) - 1} items became {len(other) - 1}"
    elif isinstance(one, dict):
        for key in one:
            yield from differences(one[key], other[key], (*path, key))
    elif isinstance(one, list):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, (*path, str(number - 1)))
    elif one != other:
        both = isinstance(one, TensorFacts)
        what = _tensor_difference(one, other) if both else f"{_short(one)} became {_short(other)}"
        yield f"{where}: {what}"


def difference(one: Any, other: Any) -> str:
    """The first difference, and how many more there are with a number that is theirs alone."""
    found = list(differences(one, other))
    if len(found) < 2:
        return "".join(found)
    return f"{found[0]} (and {len(found) - 1} more, {zlib.crc32(repr(found).encode()):08x})"


def _tensor_difference(one: TensorFacts, other: TensorFacts) -> str:
    before, after = dict(one.kind), dict(other.kind)
    changed = [
        f"{name} {before.get(name)} became {after.get(name)}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    if one.data != other.data:
        changed.append(_data_difference(one, other))
    return f"{before['dtype']} {before['shape']}: " + "; ".join(changed)


def _data_difference(one: TensorFacts, other: TensorFacts) -> str:
    same_kind = dict(one.kind)["dtype"] == dict(other.kind)["dtype"]
    if not (isinstance(one.data, bytes) and isinstance(other.data, bytes) and same_kind):
        return "the data differ"
    if len(one.data) != len(other.data):
        return f"{len(one.data)} bytes became {len(other.data)}"
    dtype = getattr(torch, str(dict(one.kind)["dtype"]).removeprefix("torch."))
    a, b = (torch.frombuffer(bytearray(facts.data), dtype=dtype) for facts in (one, other))
    size = len(one.data) // a.numel()
    moved = [
        i for i in range(a.numel()) if one.data[i * size :][:size] != other.data[i * size :][:size]
    ]
    at = moved[0]
    return f"{len(moved)} of {a.numel()} elements, first [{at}]: {a[at].item()} → {b[at].item()}"


def _short(value: Any) -> str:
    if isinstance(value, TensorFacts):
        kind = dict(value.kind)
        return f"a tensor of {kind['dtype']} {kind['shape']}"
    text = "other results" if isinstance(value, (list, dict)) else str(value)
    return text if len(text) <= 300 else f"{text[:300]}…"

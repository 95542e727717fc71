"""Torch tensors as NumPy arrays: what has numbers, under which names, and what has none."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opscope.stats.devices import is_known

_AS_IS = ("float64", "float32", "float16", "complex128", "complex64", "bool")
_INTS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
PLAIN_DTYPES = frozenset(_AS_IS + _INTS)
"""Data types that NumPy has as torch has them."""
_AS_FLOAT32 = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_SUB_BYTE = tuple((f"{sign}int{bits}", f"{sign}int8") for sign in ("", "u") for bits in range(1, 8))

_KEEP, _CONVERT, _REINTERPRET = range(3)

_MOST_DIMENSIONS = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""Of an array; tensors may have more."""


def to_numpy(tensor: Any) -> NDArray[Any] | None:
    """The tensor's elements in logical order, sharing memory where possible; None without numbers.

    bfloat16 and float8 become float32, complex32 complex64, integers below a byte int8 or uint8.
    Where there are more dimensions than NumPy has, those of size 1 are left out.
    """
    if unsupported_reason(tensor):
        return None
    if type(tensor) in _ordinary_types():
        return _elements(tensor)
    with _torch()._C.DisableTorchFunctionSubclass():
        return _elements(tensor)


def unsupported_reason(tensor: Any) -> str:
    """Return what keeps this tensor from having numbers, in words; empty if nothing does."""
    cls: Any = type(tensor)
    if not _holds_its_data(cls):
        return f"tensors of type {cls.__name__}"
    if tensor.layout is not _torch().strided or tensor.is_nested:
        return "nested tensors" if tensor.is_nested else f"{_bare(tensor.layout)} tensors"
    if tensor.is_quantized or tensor.dtype not in _conversions():
        return f"{dtype_name(tensor)} tensors"
    if tensor.is_meta:
        return "meta tensors"
    if _is_wrapped(tensor):
        return "tensors wrapped by torch.func"
    if tensor.numel() and not storage_start(tensor) and not tensor._is_zerotensor():
        return "tensors whose memory was freed"
    return ""


def storage_start(tensor: Any) -> int:
    """Return where a tensor's storage begins; 0 if it has none.

    Without a Python object for the storage, which would stay: autograd adds in place only to
    gradients that nobody else holds.
    """
    try:
        return int(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())
    except (NotImplementedError, RuntimeError):
        return 0


def only_number(tensor: Any) -> float:
    """The one element of a tensor in the memory of the host; the real part of a complex one.

    It is read where it lies, if that is simple: `item` is an operator, which a profiler of the
    user's would show.
    """
    kind = _c_types().get(tensor.dtype) if type(tensor) in _ordinary_types() else None
    if kind is not None and tensor.device.type == "cpu" and not tensor.is_neg():
        try:
            address = tensor.data_ptr()
        except (NotImplementedError, RuntimeError):
            address = 0  # it has no memory of its own
        if address:
            return float(kind.from_address(address).value)
    number = tensor.item()
    return float(number.real) if isinstance(number, complex) else float(number)


@functools.cache
def _c_types() -> dict[Any, Any]:
    torch = _torch()
    return {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}


def storage_address(tensor: Any) -> int:
    """The address of torch's object for a tensor's storage; 0 if it has none."""
    try:
        return int(_torch()._C._storage_address(tensor))
    except (NotImplementedError, RuntimeError):
        return 0


def with_memory(tensor: Any) -> Any:
    """The same elements, where torch keeps none because all of them are zero."""
    if tensor._is_zerotensor():
        return _torch().zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor


def is_plain(tensor: Any) -> bool:
    """Tell whether a tensor has numbers as most have: a quick answer, with no false yes."""
    cls: Any = tensor.__class__
    if cls not in _ordinary_types() or tensor.dtype not in _conversions():
        return False
    return bool(
        is_known(tensor)
        and tensor.layout is _torch().strided
        and not tensor.is_nested
        and not _is_wrapped(tensor)
        and not tensor._is_zerotensor()
        and (tensor.data_ptr() or not tensor.numel())
    )


def dtype_name(tensor: Any) -> str:
    """The dtype as torch spells it, without `torch.`: "float32", "bfloat16", "int64" …"""
    return _dtype_names(tensor.dtype)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape as a plain tuple."""
    return tuple(tensor.shape)


def _elements(tensor: Any) -> NDArray[Any]:
    how, dtype = _conversions()[tensor.dtype]
    if tensor.dim() > _MOST_DIMENSIONS:
        tensor = _of_fewer_dimensions(tensor.detach())
    if how == _CONVERT:
        tensor = tensor.detach().to(dtype)
    elif how == _REINTERPRET:
        tensor = tensor.detach().view(dtype)
    if not tensor.is_cpu or tensor.is_conj() or tensor.is_neg():
        array: NDArray[Any] = tensor.numpy(force=True)
        return array
    return _in_place(tensor)


def _of_fewer_dimensions(tensor: Any) -> Any:
    tensor = tensor.squeeze()
    return tensor if tensor.dim() <= _MOST_DIMENSIONS else tensor.flatten()


def _in_place(tensor: Any) -> NDArray[Any]:
    """The elements where they are; `Tensor.numpy` would keep the program from resizing them."""
    dtype, size = np.dtype(dtype_name(tensor)), tensor.element_size()
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    if not tensor.numel():
        return np.empty(shape_of(tensor), dtype)
    memory: Any = (ctypes.c_ubyte * ((last + 1) * size)).from_address(tensor.data_ptr())
    memory.owner = tensor  # which thereby lives as long as the array
    strides = tuple(step * size for step in tensor.stride())
    array: NDArray[Any] = np.ndarray(shape_of(tensor), dtype, memory, 0, strides)
    return array


@functools.cache
def _torch() -> Any:
    import torch

    return torch


@functools.cache
def _conversions() -> dict[Any, tuple[int, Any]]:
    """Return how to make each torch dtype one that NumPy has; leave out those torch lacks."""
    torch = _torch()
    plans = [(name, _KEEP, name) for name in _AS_IS + _INTS]
    plans += [(name, _CONVERT, "float32") for name in _AS_FLOAT32]
    plans += [("complex32", _CONVERT, "complex64")]
    plans += [(name, _REINTERPRET, byte) for name, byte in _SUB_BYTE]
    return {
        getattr(torch, name): (how, getattr(torch, target))
        for name, how, target in plans
        if hasattr(torch, name)
    }


@functools.cache
def _ordinary_types() -> tuple[type, ...]:
    torch = _torch()
    return torch.Tensor, torch.nn.Parameter


@functools.cache
def _holds_its_data(cls: Any) -> bool:
    """False for subclasses that answer for other tensors: DTensor, FakeTensor, NestedTensor …"""
    torch = _torch()
    if issubclass(cls, torch.nn.parameter.UninitializedTensorMixin):
        return False
    return getattr(cls, "__torch_dispatch__", None) is torch.Tensor.__torch_dispatch__


def _is_wrapped(tensor: Any) -> bool:
    return bool(_functorch_check()(tensor))


@functools.cache
def _functorch_check() -> Any:
    functorch = getattr(_torch()._C, "_functorch", None)
    return getattr(functorch, "is_functorch_wrapped_tensor", None) or (lambda _: False)


@functools.cache
def _dtype_names(dtype: Any) -> str:
    return _bare(dtype)


def _bare(name: Any) -> str:
    return str(name).removeprefix("torch.")

"""Blocks of tensor code of our own, which nobody is to see."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager
from typing import Any

import torch

_KEYS = (
    *("Python", "PythonTLSSnapshot", "PreDispatch", "FuncTorchVmapMode"),
    *("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"),
    *("AutocastCPU", "AutocastCUDA"),
)


def _above() -> Any:
    """Return the dispatch keys above the operators themselves, but for autograd."""
    keys: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    for name in _KEYS[1:]:
        keys = keys.add(getattr(torch._C.DispatchKey, name))
    return keys


_ABOVE = _above()
_native: Any = None
"""The native module, which would watch what runs in these blocks."""


def tell(native: Any) -> None:
    """Have this native module look away inside the blocks, which it provides itself."""
    global _native
    _native = native


def quiet() -> AbstractContextManager[None]:
    """Tensor code inside is not watched and reaches nothing of the user's, such as modes."""
    made: AbstractContextManager[None] = _Quiet() if _native is None else _native.Quiet(False)
    return made


def plain_torch() -> AbstractContextManager[None]:
    """The same, and it has no gradients."""
    made: AbstractContextManager[None] = _PlainTorch() if _native is None else _native.Quiet(True)
    return made


class _Quiet(AbstractContextManager[None]):
    __slots__ = ("_collects", "_dispatch", "_function")

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()  # what it finalizes is the user's, who may compute with tensors there
        self._dispatch = torch._C._ExcludeDispatchKeyGuard(_ABOVE)
        self._dispatch.__enter__()
        self._function = torch._C.DisableTorchFunction()
        self._function.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._function.__exit__(None, None, None)
        self._dispatch.__exit__(None, None, None)
        if self._collects:
            gc.enable()


class _PlainTorch(_Quiet):
    __slots__ = ("_below",)

    def __enter__(self) -> None:
        super().__enter__()
        self._below = torch._C._AutoDispatchBelowAutograd()

    def __exit__(self, *exc: object) -> None:
        del self._below
        super().__exit__(*exc)

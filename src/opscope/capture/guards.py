"""Blocks of tensor code of our own, which nobody is to see."""

from __future__ import annotations

from typing import Any

import torch

_KEYS = (
    *("Python", "PythonTLSSnapshot", "PreDispatch", "FuncTorchVmapMode"),
    *("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"),
    *("AutocastCPU", "AutocastCUDA"),
)


def _above() -> Any:
    """What lies above the operators themselves, but for autograd."""
    keys: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    for name in _KEYS[1:]:
        keys = keys.add(getattr(torch._C.DispatchKey, name))
    return keys


_ABOVE = _above()
_observer: Any = None
"""The native module, which would watch what runs in these blocks."""


def tell(observer: Any) -> None:
    """Have this native module look away inside the blocks."""
    global _observer
    _observer = observer


class quiet:  # noqa: N801 - used like a function
    """Tensor code inside is not watched and reaches nothing of the user's, such as modes."""

    __slots__ = ("_dispatch", "_function", "_muted")

    def __enter__(self) -> None:
        self._muted = _observer
        if self._muted is not None:
            self._muted.mute()
        self._dispatch = torch._C._ExcludeDispatchKeyGuard(_ABOVE)
        self._dispatch.__enter__()
        self._function = torch._C.DisableTorchFunction()

    def __exit__(self, *exc: object) -> None:
        del self._function
        self._dispatch.__exit__(None, None, None)
        if self._muted is not None:
            self._muted.unmute()


class plain_torch(quiet):  # noqa: N801
    """The same, and it has no gradients."""

    __slots__ = ("_below",)

    def __enter__(self) -> None:
        super().__enter__()
        self._below = torch._C._AutoDispatchBelowAutograd()

    def __exit__(self, *exc: object) -> None:
        del self._below
        super().__exit__(*exc)

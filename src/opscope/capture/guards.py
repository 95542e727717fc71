"""Blocks of tensor code of our own, which nobody is to see."""

from __future__ import annotations

from typing import Any

import torch

_observer: Any = None
"""The native module, which would watch what runs in these blocks."""


def tell(observer: Any) -> None:
    """Have this native module look away inside the blocks."""
    global _observer
    _observer = observer


class quiet:  # noqa: N801 - used like a function
    """Tensor code inside is not watched; it reaches no mode and no class of the user's."""

    __slots__ = ("_dispatch", "_function", "_muted")

    def __enter__(self) -> None:
        self._muted = _observer
        if self._muted is not None:
            self._muted.mute()
        self._dispatch = torch._C._DisableTorchDispatch()
        self._function = torch._C.DisableTorchFunction()

    def __exit__(self, *exc: object) -> None:
        del self._function
        del self._dispatch
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

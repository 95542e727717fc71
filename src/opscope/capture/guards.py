"""Blocks of tensor code of our own, which nobody is to see."""

from __future__ import annotations

import torch


class quiet:  # noqa: N801 - used like a function
    """Tensor code inside reaches no dispatch or function mode, neither ours nor the user's."""

    __slots__ = ("_dispatch", "_function")

    def __enter__(self) -> None:
        self._dispatch = torch._C._DisableTorchDispatch()
        self._function = torch._C.DisableTorchFunction()

    def __exit__(self, *exc: object) -> None:
        del self._function
        del self._dispatch


class plain_torch(quiet):  # noqa: N801
    """The same, and it has no gradients."""

    __slots__ = ("_below",)

    def __enter__(self) -> None:
        super().__enter__()
        self._below = torch._C._AutoDispatchBelowAutograd()

    def __exit__(self, *exc: object) -> None:
        del self._below
        super().__exit__(*exc)

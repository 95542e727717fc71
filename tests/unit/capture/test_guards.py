"""Tensor code of our own is seen by nobody, and leaves no gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from helpers.modes import LoggingMode
from opscope.capture import guards


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def in_python() -> Iterator[None]:
    """The blocks as they are without native code."""
    before = guards._native
    guards.tell(None)
    yield
    guards.tell(before)


@pytest.mark.parametrize("block", [guards.quiet, guards.plain_torch])
def test_nothing_of_the_users_is_reached(
    block: Callable[[], AbstractContextManager[None]],
) -> None:
    with Functions() as functions, LoggingMode() as dispatches:
        torch.ones(1) + 1
        seen = len(functions.seen), len(dispatches.seen)
        with block():
            torch.ones(1) + 1
            with block():
                torch.ones(1) * 2
            torch.ones(1) - 1
        assert (len(functions.seen), len(dispatches.seen)) == seen
        torch.ones(1) + 1
        assert len(dispatches.seen) == 2 * seen[1]


def test_gradients() -> None:
    x = torch.ones(2, requires_grad=True)
    with guards.quiet():
        assert (x * 2).requires_grad
    with guards.plain_torch():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


@pytest.mark.parametrize("block", [guards.quiet, guards.plain_torch])
def test_an_error_ends_the_block(block: Callable[[], AbstractContextManager[None]]) -> None:
    with LoggingMode() as dispatches:
        with pytest.raises(RuntimeError), block():
            torch.ones(2) + torch.ones(3)
        torch.ones(1)
    assert dispatches.seen == ["aten.ones.default"]


def test_autocast_does_not_reach_it() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with guards.quiet():
            assert (x @ x).dtype == torch.float32

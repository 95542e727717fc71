"""Custom operators in Python, which torch 2.15 calls without telling observers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from opscope.capture.patches import Patches


def see_direct_calls(patches: Patches) -> None:
    """Have such operators called through the dispatcher, as earlier versions of torch do."""
    if "_pyobj_dispatcher" in OpOverload.__init__.__code__.co_names:
        patches.wrap(OpOverload, "__call__", _through_the_dispatcher)


def _through_the_dispatcher(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(overload: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if overload._pyobj_dispatcher is None:
            return original(overload, *args, **kwargs)
        return overload._cpp_dispatch_handle(*args, **kwargs)

    return __call__

"""Memory reuse: whether compiled graphs may write a tensor where another one was.

It is on unless `set_context(enable_mem_reuse=False)` or `"sys": {"mem_reuse": false}` switches it
off. Eager operators always have memory of their own while their results live, so nothing changes
for them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

OPTIONS: dict[str, dict[str, bool | str]] = {
    "torch._inductor.config": {
        "allow_buffer_reuse": False,
        "inplace_buffers": False,
        "inplace_padding": False,
        "disabled_passes": "reinplace_inplaceable_ops",
    },
    "torch._functorch.config": {"donated_buffer": False},
}
"""The options that keep Inductor from writing over a buffer that is no longer needed."""
_before: dict[tuple[str, str], Any] = {}
"""The values of the options before they were switched off."""
_allowed = True
_awaited: set[str] = set()


def set_reuse(allowed: bool) -> None:
    """Allow it or not, in graphs that are compiled from here on."""
    from opscope.capture.on_import import when_imported  # only for those who switch it off

    global _allowed
    if allowed is _allowed:
        return
    _allowed = allowed
    for module in OPTIONS:
        if module not in _awaited:
            _awaited.add(module)
            when_imported(module, lambda module=module: _apply(module))  # type: ignore[misc]
        elif module in sys.modules:
            _apply(module)


def is_allowed() -> bool:
    """Tell whether compiled graphs may reuse memory."""
    return _allowed


def _apply(module: str) -> None:
    config = importlib.import_module(module)
    for name, value in OPTIONS[module].items():
        if not hasattr(config, name):
            continue  # this torch has no such option
        key = module, name
        if not _allowed and key not in _before:
            before = _before[key] = getattr(config, name)
            more = f"{before},{value}" if isinstance(value, str) and before else value
            setattr(config, name, more)
        elif _allowed and key in _before:
            setattr(config, name, _before.pop(key))

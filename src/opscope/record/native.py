"""The native recorder, or the reason why there is none."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from opscope.messages import say_once
from opscope.native import build
from opscope.native.extension import load_extension
from opscope.native.recorder_library import build_recorder, build_with_hook
from opscope.waiting import Waiting

_MODULE = "opscope_recorder"


@functools.cache
def load(torch: Any) -> ModuleType | None:
    """The native module for a torch that is loaded, built now if it was not before."""
    if build.switched_off():
        return None
    path, reason = build_recorder(torch, only_find=True)
    if path is None and not reason:
        say_once(
            f"building native code for torch {torch.__version__}, once; "
            "`opscope doctor --build` does so ahead"
        )
        with Waiting("building native code"):
            path, reason = build_with_hook(torch)[0]
    if path is None:
        say_once(f"no native recorder ({reason}): modules are recorded, not their operators")
        return None
    return load_extension(_MODULE, path, "recorder")

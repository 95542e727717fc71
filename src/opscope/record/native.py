"""The native recorder, or the reason why there is none."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
from types import ModuleType
from typing import Any

from opscope.messages import say_once
from opscope.native import build
from opscope.native.recorder_library import build_recorder, build_with_hook

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
        path, reason = build_with_hook(torch)[0]
    if path is None:
        say_once(f"no native recorder ({reason}): modules are recorded, not their operators")
        return None
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    if spec is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        say_once(f"the native recorder in {path} does not load ({error}): going without")
        return None
    return module

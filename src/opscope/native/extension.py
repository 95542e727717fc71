"""Loading of a library that is a Python module."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

from opscope.messages import say_once


def load_extension(name: str, path: Path, what: str) -> ModuleType | None:
    """The module in a file; where it does not load that is said, and there is none."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        say_once(f"the native {what} in {path} does not load ({error}): going without")
        return None
    return module

"""Builds the statistics library into the package where there is a compiler.

Everything else is in pyproject.toml. Without a compiler the package is complete as well: opscope
tries again at first use, and works with NumPy where that fails.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).parent / "src" / "opscope" / "native" / "build.py"


def builder() -> ModuleType:
    """`opscope.native.build`, without the package that is only about to be installed."""
    spec = importlib.util.spec_from_file_location("opscope_native_build", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class BuildWithLibrary(build_py):
    """Copies the package, and compiles; an editable install builds at first use instead."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "opscope" / "native"
        path, reason = builder().build_stats(target)
        print(f"opscope: built {path}" if path else f"opscope: no native code ({reason})")


class WithLibrary(Distribution):
    """A package for this kind of machine, as it may hold a library."""

    def has_ext_modules(self) -> bool:
        return builder().can_build()


setup(cmdclass={"build_py": BuildWithLibrary}, distclass=WithLibrary)

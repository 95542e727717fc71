"""Builds the statistics library and the page into the package, where there are tools for it.

Everything else is in pyproject.toml. Without a compiler the package is complete as well: opscope
tries again at first use, and works with NumPy where that fails. The native hook is for one torch:
if that can be imported here, as with `pip install --no-build-isolation`, it is built ahead too,
into the user's cache; otherwise the first run does so, or `opscope doctor --build`. The page needs
Node.js here, and nobody afterwards; an sdist holds it built.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

PACKAGES = Path(__file__).parent / "src"
PAGE_SOURCE = Path(__file__).parent / "ui" / "build.py"
BUILD_HOOK = """
import torch
from opscope.native.hook_library import build_hook
print("opscope: built", build_hook(torch).path or "no hook")
"""


def builder() -> ModuleType:
    """`opscope.native.build` of the package that is only about to be installed."""
    if str(PACKAGES) not in sys.path:
        sys.path.insert(0, str(PACKAGES))
    return importlib.import_module("opscope.native.build")


def loaded(name: str, source: Path) -> ModuleType:
    """A module from its file."""
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_hook() -> None:
    """Build the hook if torch is there; silent if it is not, or if the hook cannot be built."""
    path = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
    ours = ("OPSCOPE_", "MINDSPORE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    words = [sys.executable, "-c", BUILD_HOOK]
    subprocess.run(words, env=kept | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL, check=False)


def build_page() -> None:
    """Build the page into the sources; say so where that cannot be."""
    if PAGE_SOURCE.is_file():
        loaded("opscope_page_build", PAGE_SOURCE).main()


class SdistWithPage(sdist):
    """An archive of the sources, with the page built."""

    def run(self) -> None:
        build_page()
        super().run()


class BuildWithLibrary(build_py):
    """Copies the package, and compiles; an editable install builds at first use instead."""

    def run(self) -> None:
        if not self.editable_mode:
            build_page()
            self.__dict__.pop("data_files", None)  # setuptools looked before the page was there
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "opscope" / "native"
        path, reason = builder().build_stats(target)
        print(f"opscope: built {path}" if path else f"opscope: no native code ({reason})")
        if path and not builder().switched_off():
            build_hook()


class WithLibrary(Distribution):
    """A package for this kind of machine, as it may hold a library."""

    def has_ext_modules(self) -> bool:
        return builder().can_build()


setup(cmdclass={"build_py": BuildWithLibrary, "sdist": SdistWithPage}, distclass=WithLibrary)

"""Building the native hook, which needs the headers of the torch and the Python it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from opscope.messages import say_once
from opscope.native.build import HERE, Built, build

HOOK = "hook"
_SOURCES = ("hook.cpp", "cuda_rows.cpp", "known.cpp", "rows.cpp")


def build_hook(torch: Any, only_find: bool = False) -> Built:
    """The hook for a torch that is loaded, built if need be unless `only_find`."""
    root = Path(torch.__file__).parent
    versions = f"{torch.__version__}-{sysconfig.get_config_var('SOABI')}"
    return build(
        HOOK,
        [HERE / HOOK / source for source in _SOURCES],
        include=[
            root / "include",
            root / "include/torch/csrc/api/include",
            sysconfig.get_path("include"),
        ],
        flags=[
            "-std=c++20",
            "-O2",
            "-DNDEBUG",  # structures of torch have other fields without it
            "-DAT_PER_OPERATOR_HEADERS",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f'-DOPSCOPE_BUILT_FOR="{versions}"',
        ],
        libraries=[f"-L{root / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10", "-ldl"],
        own_runtime=False,
        only_find=only_find,
    )


def find_hook(torch: Any) -> Path | None:
    """The hook, if it was built before; otherwise the background begins to build it."""
    path, reason = build_hook(torch, only_find=True)
    if path is None and not reason:
        _build_in_background()
    return path


def background_has_ended() -> bool:
    """Whether a build in the background has ended since it was last asked; of this process only."""
    global _background
    if _background is None or _background[0] != os.getpid() or _background[1].poll() is None:
        return False
    _background = None
    return True


_background: tuple[int, subprocess.Popen[bytes]] | None = None
"""The process that began to build, and the one that builds."""
_tried = False
"""Once per process: a build that leaves nothing behind will not do better the next time."""


def _build_in_background() -> None:
    global _background, _tried
    if _tried:
        return
    _tried = True
    say_once("building the native hook in the background, once; watching is slower until then")
    building = subprocess.Popen(
        [sys.executable, "-m", "opscope.native"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _background = os.getpid(), building

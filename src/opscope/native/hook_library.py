"""Building the native observer, which needs the headers of the torch and the Python it is for."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.messages import say_once
from opscope.native.build import HERE, Built, build
from opscope.native.headers import hook_headers
from opscope.waiting import Waiting

HOOK = "hook"
_SOURCES = ("hook.cpp", "rest.cpp")
"""Those that take longest to compile first."""
# Asked for here, by one thread: to a second one `sysconfig` answers nothing while it is half made.
_SOABI = sysconfig.get_config_var("SOABI")
_PYTHON_HEADERS = sysconfig.get_path("include")


def build_hook(torch: Any, only_find: bool = False) -> Built:
    """The observer for a torch that is loaded, built if need be unless `only_find`."""
    return build_beside_torch(HOOK, _SOURCES, hook_headers(), torch, only_find)


def build_beside_torch(
    name: str, sources: Sequence[str], headers: Mapping[str, str], torch: Any, only_find: bool
) -> Built:
    """A library of the sources in the folder `name`, made for a torch that is loaded."""
    root = Path(torch.__file__).parent
    versions = f"{torch.__version__}-{_SOABI}"
    return build(
        name,
        [HERE / name / source for source in sources],
        include=[
            root / "include",
            root / "include/torch/csrc/api/include",
            _PYTHON_HEADERS,
        ],
        flags=[
            "-std=c++20",
            "-O2",
            "-fno-plt",  # calls of torch and Python go through one line of the cache less
            "-DNDEBUG",  # structures of torch have other fields without it
            "-DAT_PER_OPERATOR_HEADERS",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f'-DOPSCOPE_BUILT_FOR="{versions}"',
        ],
        headers=headers,
        libraries=[f"-L{root / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10", "-ldl"],
        own_runtime=False,
        only_find=only_find,
    )


def find_hook(torch: Any) -> Path | None:
    """The observer, built now if it was not before; None where that cannot be done."""
    path, reason = build_hook(torch, only_find=True)
    if path is None and not reason:
        say_once(
            f"building the native observer for torch {torch.__version__}, once; "
            "`opscope doctor --build` does so ahead"
        )
        with Waiting("building the native observer"):
            path, reason = build_hook(torch)
    if path is None:
        say_once(f"no native observer ({reason}): operators are watched by a slower Python mode")
    return path

"""Building the native recorder, which needs the headers of the torch and the Python it is for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opscope.native.build import HERE, Built
from opscope.native.headers import recorder_headers
from opscope.native.hook_library import HOOK, build_beside_torch, build_hook

RECORDER = "recorder"
_SOURCES = ("recorder.cpp", "death.cpp")
_OF_HOOK = (
    *("cuda_driver.h", "flat_map.h", "frames.h", "python_objects.h", "recorder_link.h"),
    *("schemas.h", "simple_tensors.h", "unneeded.h"),
)
"""Headers that both have."""


def build_recorder(torch: Any, only_find: bool = False) -> Built:
    """The recorder for a torch that is loaded, built if need be unless `only_find`."""
    shared = {name: (HERE / HOOK / name).read_text() for name in _OF_HOOK}
    return build_beside_torch(RECORDER, _SOURCES, recorder_headers() | shared, torch, only_find)


def build_with_hook(torch: Any) -> tuple[Built, Built]:
    """The recorder and the observer of operators, built at the same time if need be."""
    with ThreadPoolExecutor(2) as pool:
        recorder, hook = pool.submit(build_recorder, torch), pool.submit(build_hook, torch)
        return recorder.result(), hook.result()

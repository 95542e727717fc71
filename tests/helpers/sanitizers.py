"""Native code under the address and undefined-behaviour sanitizers, in a process of its own.

Whatever `opscope.native.build` builds in that process is instrumented: the environment names a
compiler with the sanitizers' flags and a cache that has nothing else in it.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from helpers.program import clean_environment

FLAGS = (
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    *("-g1", "-Wno-error"),
)
_RUNTIMES = ("libasan.so", "libstdc++.so.6")
"""Loaded before all else; without the second, exceptions of other libraries are not found."""


@functools.cache
def runtimes() -> tuple[str, ...]:
    """What has to be loaded first; empty where this compiler has no sanitizers."""
    found = []
    for name in _RUNTIMES:
        try:
            answer = subprocess.run(
                ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=False
            )
        except OSError:
            return ()
        path = Path(answer.stdout.strip())
        if not path.is_absolute() or not path.exists():
            return ()
        found.append(str(path.resolve()))
    return tuple(found)


def sanitized_environment(cache: Path, **extra: str) -> dict[str, str]:
    """For a process whose native libraries are instrumented and kept in `cache`.

    A mistake ends the process with a report on stderr. Leaks are not looked for: an interpreter
    that ends leaves much behind. Nor are uses of a stack that is gone: with that, some g++
    misplace vectors of 64 bytes.
    """
    return clean_environment(
        **{
            "CXX": " ".join(["g++", *FLAGS]),
            "XDG_CACHE_HOME": str(cache),
            "LD_PRELOAD": " ".join(runtimes()),
            "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            **extra,
        }
    )


def is_instrumented(library: Path) -> bool:
    """Whether a library was built with the address sanitizer."""
    return b"__asan_report" in library.read_bytes()

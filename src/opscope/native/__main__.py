"""`python -m opscope.native`: build the native libraries for this Python and its torch."""

from __future__ import annotations

import sys

from opscope.native.build import Built, stats_library
from opscope.native.recorder_library import build_with_hook
from opscope.waiting import Waiting


def main() -> int:
    """Build what is missing and say what there is; 1 if something could not be built."""
    with Waiting("native code"):
        recorder, hook = _beside_torch()
        libraries = {"statistics": stats_library(), "hook": hook, "recorder": recorder}
    for name, built in libraries.items():
        print(f"{name}: {built.path or built.reason}")
    return 0 if all(built.path for built in libraries.values()) else 1


def _beside_torch() -> tuple[Built, Built]:
    try:
        import torch
    except ImportError:
        missing = Built(None, "torch is not installed")
        return missing, missing
    return build_with_hook(torch)


if __name__ == "__main__":
    sys.exit(main())

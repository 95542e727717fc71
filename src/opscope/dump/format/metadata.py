"""`.dump_metadata/config.json`: what wrote the dump."""

from __future__ import annotations

import json
import platform
import sys
from types import ModuleType

import numpy as np

import opscope


def config_json() -> str:
    """The versions and the device, as far as they are known by now."""
    torch = sys.modules.get("torch")
    content = {
        "opscope_version": opscope.__version__,
        "framework": "torch" if torch else None,
        "torch_version": str(torch.__version__) if torch else None,
        "numpy_version": np.__version__,
        "python_version": platform.python_version(),
        "device_target": "GPU" if torch and _uses_gpu(torch) else "CPU",
        "device_name": _gpu_name(torch) if torch else None,
    }
    return json.dumps(content, indent=2) + "\n"


def _uses_gpu(torch: ModuleType) -> bool:
    """Whether the script has started CUDA; asking for a device would start it."""
    return bool(torch.cuda.is_initialized())


def _gpu_name(torch: ModuleType) -> str | None:
    return str(torch.cuda.get_device_name()) if _uses_gpu(torch) else None

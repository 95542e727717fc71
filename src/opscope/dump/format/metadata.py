"""`.dump_metadata/config.json`: what wrote the dump."""

from __future__ import annotations

import json
import platform
import sys

import numpy as np

from opscope._version import __version__
from opscope.stats.devices import used_kind


def config_json() -> str:
    """The versions and the device, as far as they are known by now."""
    torch = sys.modules.get("torch")
    used = used_kind(torch) if torch else None
    content = {
        "opscope_version": __version__,
        "framework": "torch" if torch else None,
        "torch_version": str(torch.__version__) if torch else None,
        "numpy_version": np.__version__,
        "python_version": platform.python_version(),
        "device_target": used.target if used else "CPU",
        "device_name": used.name(torch) if used and torch else None,
    }
    return json.dumps(content, indent=2) + "\n"

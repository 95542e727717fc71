"""The configuration of a dump that has everything, for what looks at dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_dump_config(folder: Path, **common: Any) -> Path:
    """Write `dump.json`, by which steps 0 to 2 are dumped to `dump`; `common` changes it."""
    settings = {
        "dump_mode": 0,
        "path": str(folder / "dump"),
        "net_name": "Net",
        "iteration": "0-2",
        "saved_data": "full",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    config = {
        "common_dump_settings": settings | common,
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }
    path = folder / "dump.json"
    path.write_text(json.dumps(config))
    return path

"""Running the peer suite as a program of its own, as tests do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers.program import clean_environment

ENGINES = {"native": {}, "python": {"OPSCOPE_NATIVE": "0"}}
"""What the environment says, by what then does the watching."""


def run_peers(*arguments: str, engine: str = "native", timeout: float = 1500) -> dict[str, Any]:
    """The report of `python tests/peers` with these arguments."""
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).parent), "--json", *arguments],
        env=clean_environment(**ENGINES[engine]),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert ended.returncode in (0, 1) and ended.stdout, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report

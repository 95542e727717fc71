"""Running the real `opscope` program, and plain Python, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_OURS = ("OPSCOPE_", "MINDSPORE_", "MS_", "GLOG_", "RANK", "WORLD_SIZE", "TORCHELASTIC")


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without any variable that opscope reads, plus `extra`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "OPSCOPE_PAGE": "0"} | extra


def opscope(
    *args: str | Path, cwd: Path, timeout: float = 120, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m opscope …` and wait for it."""
    return python("-m", "opscope", *args, cwd=cwd, timeout=timeout, **environ)


def python(
    *args: str | Path, cwd: Path, timeout: float = 120, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Python and wait for it."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )

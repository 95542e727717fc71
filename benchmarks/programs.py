"""Running whole scripts as users do, plainly and under opscope."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(__file__).with_name("user_script.py")
SOURCE = Path(__file__).resolve().parent.parent / "src"
Times = dict[str, float]
_folders = tempfile.TemporaryDirectory(prefix="opscope-benchmarks-")
"""All that runs write, until the end: ext4 takes longer to make files where some have just gone."""


class Mode(NamedTuple):
    """How a script is run: options of `opscope run` (None for plainly) and a dump config."""

    options: tuple[str, ...] | None = ()
    config: Mapping[str, Mapping[str, object]] | None = None
    environment: Mapping[str, str] = {}


PLAIN = Mode(None)


def run(mode: Mode, workload: str, steps: int) -> Times:
    """What the script says of its steps, run once in a directory of its own."""
    directory = tempfile.mkdtemp(dir=_folders.name)
    command = [sys.executable, *_watched(mode, Path(directory)), str(SCRIPT)]
    done = subprocess.run(
        [*command, workload, str(steps)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **mode.environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-800:]}")
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def _watched(mode: Mode, directory: Path) -> list[str]:
    if mode.options is None:
        return []
    words = ["-m", "opscope", "run", *mode.options]
    if mode.config is not None:
        config = {name: dict(section) for name, section in mode.config.items()}
        config["common_dump_settings"]["path"] = str(directory / "dump")
        file = directory / "data_dump.json"
        file.write_text(json.dumps(config))
        words += ["--dump", str(file)]
    return words


def facts() -> dict[str, object]:
    """The machine and the versions; builds what is native, so that no run has to."""
    import torch

    from opscope.native.hook_library import build_hook
    from opscope.stats import native_cpu

    built = build_hook(torch)
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "statistics": native_cpu.features(),
        "hook": "native" if built.path else f"none ({built.reason})",
    }


def processor() -> str:
    """What the processor is called."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median of some values and, in brackets, the least and the largest."""
    middle = statistics.median(values)
    return f"{middle:.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"

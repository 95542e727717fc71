"""Shared libraries from C++ sources: beside the package, or at first use in the user's cache.

Building never raises: without a compiler, or with one that fails, there is a reason instead of a
library, and opscope works without it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from opscope.locks import one_at_a_time
from opscope.native.headers import stats_headers
from opscope.waiting import advance, expect

HERE = Path(__file__).parent

_FLAGS = (
    *("-O3", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-pthread", "-fopenmp-simd"),
    # Comparisons may be vectorised; NaN, Inf and the order of additions stay what they are.
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
)
_LINK = ("-shared", "-pthread", "-Wl,--exclude-libs,ALL")
_OWN_RUNTIME = ("-static-libstdc++", "-static-libgcc")
"""The libstdc++ of a compiler may be newer than the one that the process has loaded."""

_X86 = platform.machine() in ("x86_64", "AMD64")
_AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mpopcnt")
_AVX512 = (
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
    # This compiler's own headers provoke the warning.
    *("-mprefer-vector-width=512", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
)
STATS = "stats"
STATS_SOURCES = ("stats.cpp", "api.cpp", "csv.cpp", "leaving.cpp", "python_stack.cpp")
STATS_VARIANTS: dict[str, tuple[str, ...]] = {"baseline": ()}
if _X86:
    STATS_VARIANTS |= {
        "avx2": _AVX2,
        "avx512": (*_AVX2, *_AVX512),
    }

_PATIENCE = 300.0
"""Seconds to wait for another process that builds the same library."""

_AT_A_TIME = min(4, os.cpu_count() or 1)


class Built(NamedTuple):
    """A library, or the reason why there is none."""

    path: Path | None
    reason: str = ""


def switched_off() -> bool:
    """Tell whether the environment forbids native code (`OPSCOPE_NATIVE=0`)."""
    return os.environ.get("OPSCOPE_NATIVE", "1").strip().lower() in ("0", "false")


def can_build() -> bool:
    """Tell whether there is a compiler to try."""
    try:
        return bool(_compiler())
    except _NoLibraryError:
        return False


def stats_library(only_find: bool = False) -> Built:
    """The statistics library: the one of the package, or one built now or earlier in the cache."""
    packaged = HERE / f"{STATS}.so"
    if packaged.exists():
        return Built(packaged)
    return build_stats(only_find=only_find)


def build_stats(directory: Path | None = None, only_find: bool = False) -> Built:
    """Build the statistics library, in the user's cache if not told where."""
    return build(
        STATS,
        [HERE / source for source in STATS_SOURCES],
        variants={"stats.cpp": STATS_VARIANTS},
        flags=("-DOPSCOPE_X86",) if _X86 else (),
        headers=stats_headers(),
        directory=directory,
        only_find=only_find,
    )


def build(
    name: str,
    sources: Sequence[Path],
    *,
    variants: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    include: Sequence[str | Path] = (),
    flags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    libraries: Sequence[str] = (),
    own_runtime: bool = True,
    directory: Path | None = None,
    only_find: bool = False,
) -> Built:
    """Make `name`.so of the sources, unless it is there already.

    A source named in `variants` is compiled once per variant, with that variant's flags and
    `OPSCOPE_VARIANT` defined as its name. `headers` are texts that sources include by their names,
    as `generated/NAME`. `libraries` are arguments of the linker. With
    `own_runtime` the C++ runtime goes into the library. In a `directory` that is given the file is
    called `name`.so; in the cache its name says what it was made of. With `only_find` nothing is
    built: no path and no reason mean that it has not been tried.
    """
    try:
        compiler = _compiler()
        units = list(_units(sources, variants or {}))
        options = (*_FLAGS, *(f"-I{path}" for path in include), *flags)
        plan = _BuildPlan(compiler, units, options, headers or {}, tuple(libraries), own_runtime)
        if directory is not None:
            return _make(plan, directory / f"{name}.so")
        return _in_cache(plan, f"{name}-{plan.key()}.so", only_find)
    except _NoLibraryError as problem:
        return Built(None, str(problem))
    except (OSError, subprocess.SubprocessError) as problem:
        return Built(None, f"{type(problem).__name__}: {problem}")


class _NoLibraryError(Exception):
    """The sentence that says why."""


class _Unit(NamedTuple):
    source: Path
    variant: str
    flags: tuple[str, ...]


class _BuildPlan(NamedTuple):
    compiler: list[str]
    units: list[_Unit]
    options: tuple[str, ...]
    made_headers: Mapping[str, str]
    libraries: tuple[str, ...]
    own_runtime: bool

    def key(self) -> str:
        """Changes when anything does that the library is made of, wherever its sources are."""
        sources = {unit.source for unit in self.units}
        around = {path for source in sources for path in source.parent.glob("*.[hc]*")}
        units = [(unit.source.name, unit.variant, unit.flags) for unit in self.units]
        made = sorted(self.made_headers.items())
        digest = hashlib.sha256(
            repr((units, self.options, *made, self.libraries, platform.machine())).encode()
        )
        digest.update(_run([*self.compiler, "--version"]).stdout)
        for path in sorted(sources | {each for each in around if each.suffix in (".h", ".cpp")}):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()[:16]


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    if sys.byteorder != "little":
        raise _NoLibraryError("records are little-endian, this machine is not")
    if shutil.which(command[0]) is None:
        raise _NoLibraryError(f"there is no {command[0]}")
    return command


def _units(
    sources: Sequence[Path], variants: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[_Unit]:
    for source in sources:
        for variant, flags in variants.get(source.name, {"": ()}).items():
            yield _Unit(source, variant, tuple(flags))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, timeout=_PATIENCE)


def _in_cache(plan: _BuildPlan, name: str, only_find: bool) -> Built:
    directory = cache_directory()
    target, failed = directory / name, directory / f"{name}.failed"
    if target.exists():
        return Built(target)
    if only_find:
        return Built(None, failed.read_text() if failed.exists() else "")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = directory / f"{name}.lock"
        lock.touch()
        with one_at_a_time(lock, _PATIENCE):
            return Built(target) if target.exists() else _make_or_note(plan, target, failed)
    except OSError:
        # The cache cannot be written to: a library for this process alone.
        return _make(plan, Path(tempfile.mkdtemp(prefix="opscope-")) / name)


def _make_or_note(plan: _BuildPlan, target: Path, failed: Path) -> Built:
    """Leave a note of what went wrong, so that nobody tries the same again in vain."""
    try:
        return _make(plan, target)
    except _NoLibraryError as problem:
        failed.write_text(str(problem))
        raise


def cache_directory() -> Path:
    """Return the folder of libraries that were not built with the package."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "opscope"


def _make(plan: _BuildPlan, target: Path) -> Built:
    """Compile next to the target, and rename: it appears complete or not at all."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as work:
        made = Path(work) / target.name
        _write_headers(plan.made_headers, Path(work) / "generated")
        expect(len(plan.units))
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            objects = list(pool.map(lambda unit: _compile(plan, unit, Path(work)), plan.units))
        _link(plan, objects, made)
        made.replace(target)
    return Built(target)


def _write_headers(headers: Mapping[str, str], directory: Path) -> None:
    directory.mkdir()
    for name, text in headers.items():
        (directory / name).write_text(text)


def _compile(plan: _BuildPlan, unit: _Unit, work: Path) -> str:
    made = work / f"{unit.source.stem}-{unit.variant}.o"
    defines = [f"-DOPSCOPE_VARIANT={unit.variant}"] if unit.variant else []
    command = [*plan.compiler, f"-I{work}", *plan.options, *unit.flags, *defines]
    _demand([*command, "-c", str(unit.source), "-o", str(made)])
    advance()
    return str(made)


def _link(plan: _BuildPlan, objects: list[str], made: Path) -> None:
    command = [*plan.compiler, *_LINK, *objects, *plan.libraries, "-o", str(made)]
    if plan.own_runtime and _run([*command, *_OWN_RUNTIME]).returncode == 0:
        return
    _demand(command)


def _demand(command: list[str]) -> None:
    result = _run(command)
    if result.returncode:
        said = result.stderr.decode(errors="replace").strip().splitlines()
        error = next((line for line in said if "error" in line), said[-1] if said else "no message")
        raise _NoLibraryError(f"{Path(command[0]).name} failed: {error}")

"""Native code under the sanitizers: tests of rows, hook and recorder, run once more with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.sanitizers import is_instrumented, runtimes, sanitized_environment
from opscope.native import build

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not build.can_build() or not runtimes(), reason="no sanitizers here"),
    pytest.mark.skipif((build.HERE / "stats.so").exists(), reason="the packaged library is used"),
]

TESTS = Path(__file__).parents[1] / "stats"
TRAININGS = Path(__file__).parents[2] / "integration"
WITH_HOOK = (
    *("test_native_hook.py", "test_native_hook_endings.py", "test_bit_identity.py"),
    *("test_lbfgs.py", "test_threads.py", "test_torch_func.py", "test_data_phase.py"),
    *("test_data_loader_workers.py", "test_dump_training.py"),
)
"""Real trainings, in this process and in programs of their own."""
WITH_RECORDER = ("unit/record/test_step_facts.py", "integration/test_recorder_shared.py")
FILES = ("test_stored_bits.py", "test_native_cpu.py", "test_two_tensors.py", "test_rows.py")

OVERRUN = """
#include <cstdlib>
extern "C" __attribute__((visibility("default"))) int read(int from) {
  int* three = static_cast<int*>(std::calloc(3, sizeof(int)));
  const int found = three[from];
  std::free(three);
  return found;
}
"""
READ = """
import ctypes, sys
from pathlib import Path
from opscope.native import build
path, reason = build.build("read", [Path(sys.argv[1])])
print(path or reason, flush=True)
ctypes.CDLL(str(path)).read(int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both libraries are; building them takes longer than a program may."""
    folder = tmp_path_factory.mktemp("sanitized")
    built = run(folder, "-m", "opscope.native")
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def run(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with instrumented libraries."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=sanitized_environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_built_is_looked_at(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "read.cpp"
    source.write_text(OVERRUN)
    for index, wrong in ((2, False), (3, True)):
        result = run(cache, "-c", READ, str(source), str(index))
        assert is_instrumented(Path(result.stdout.strip()))
        assert (result.returncode != 0) == wrong, result.stderr
        assert ("read.cpp:5" in result.stderr) == wrong


@pytest.mark.parametrize("file", FILES)
def test_rows(cache: Path, file: str) -> None:
    run_tests(cache, TESTS / file, "not numpy")
    assert_instrumented(cache, "stats")


@pytest.mark.parametrize("file", WITH_HOOK)
def test_hook(cache: Path, file: str) -> None:
    run_tests(cache, TRAININGS / file, "not interrupt")  # those soak, which takes too long here
    assert_instrumented(cache, "hook")


@pytest.mark.parametrize("file", WITH_RECORDER)
def test_recorder(cache: Path, file: str) -> None:
    run_tests(cache, TRAININGS.parent / file, "not nothing_but")  # a sanitizer keeps what is freed
    assert_instrumented(cache, "recorder")


def run_tests(cache: Path, file: Path, which: str) -> None:
    """Tests of another file, every process with instrumented libraries."""
    result = run(
        cache,
        *("-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-x"),
        *("-m", "not long", "-k", which, "--timeout", "1200", str(file)),
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-5000:]


def assert_instrumented(cache: Path, name: str) -> None:
    libraries = list((cache / "opscope").glob(f"{name}-*.so"))
    assert libraries and all(is_instrumented(path) for path in libraries)

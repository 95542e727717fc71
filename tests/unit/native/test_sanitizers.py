"""The native statistics under the sanitizers: the tests of rows, run once more with them."""

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
    return tmp_path_factory.mktemp("sanitized")


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
    result = run(
        cache,
        *("-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-x"),
        *(str(TESTS / file), "-k", "not numpy"),
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-5000:]
    libraries = list((cache / "opscope").glob("stats-*.so"))
    assert libraries and all(is_instrumented(path) for path in libraries)

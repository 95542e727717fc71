"""Libraries from sources: built once, found again, and a reason where there is none."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opscope.native import build

SOURCE = """
#ifndef OPSCOPE_VARIANT
#define OPSCOPE_VARIANT plain
#endif
#define JOIN(a, b) a##b
#define NAME(a) JOIN(answer_, a)
extern "C" __attribute__((visibility("default"))) int NAME(OPSCOPE_VARIANT)() { return ANSWER; }
"""

pytestmark = pytest.mark.skipif(not build.can_build(), reason="no compiler here")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache" / "opscope"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.cpp"
    path.write_text(SOURCE)
    return path


def made(source: Path, answer: str = "42", **options: object) -> build.Built:
    """The library of the one source."""
    return build.build("answer", [source], flags=(f"-DANSWER={answer}",), **options)  # type: ignore[arg-type]


def test_a_library_is_built_into_the_cache(source: Path, cache: Path) -> None:
    path, reason = made(source)
    assert reason == ""
    assert path is not None and path.parent == cache
    assert ctypes.CDLL(str(path)).answer_plain() == 42


def test_it_is_found_again(source: Path) -> None:
    first = made(source).path
    assert first is not None
    before = first.stat().st_mtime_ns
    assert made(source).path == first
    assert first.stat().st_mtime_ns == before


def _other_source(source: Path) -> build.Built:
    source.write_text(SOURCE + "// more\n")
    return made(source)


def _other_header(source: Path) -> build.Built:
    source.with_name("some.h").write_text("// more\n")
    return made(source)


def _other_flags(source: Path) -> build.Built:
    return made(source, "43")


def _other_made_header(source: Path) -> build.Built:
    return made(source, headers={"numbers.h": "#define THE_ANSWER 42\n"})


CHANGES = [_other_source, _other_header, _other_flags, _other_made_header]


@pytest.mark.parametrize("change", CHANGES)
def test_another_one_is_made_when_something_changed(
    source: Path, change: Callable[[Path], build.Built]
) -> None:
    assert made(source).path != change(source).path


def test_a_copy_of_the_sources_makes_the_same_one(source: Path, tmp_path: Path) -> None:
    """What is built where the package comes from is found where it was installed."""
    (tmp_path / "installed").mkdir()
    source.with_name("some.h").write_text("// here and there\n")
    for file in (source, source.with_name("some.h")):
        (tmp_path / "installed" / file.name).write_bytes(file.read_bytes())
    assert made(source).path == made(tmp_path / "installed" / source.name).path


def test_a_source_is_compiled_once_per_variant(source: Path) -> None:
    path, reason = made(source, variants={"answer.cpp": {"one": (), "two": ("-O1",)}})
    assert path is not None, reason
    library = ctypes.CDLL(str(path))
    assert library.answer_one() == library.answer_two() == 42


def test_headers_are_made_for_the_sources(source: Path) -> None:
    source.write_text('#include "generated/numbers.h"\n' + SOURCE)
    path, reason = made(source, "THE_ANSWER", headers={"numbers.h": "#define THE_ANSWER 7\n"})
    assert path is not None, reason
    assert ctypes.CDLL(str(path)).answer_plain() == 7


def test_a_directory_that_is_given(source: Path, tmp_path: Path) -> None:
    assert made(source, directory=tmp_path).path == tmp_path / "answer.so"


def test_the_reason_is_the_compilers_first_error(source: Path) -> None:
    source.write_text("int broken(")
    path, reason = made(source)
    assert path is None
    assert "error" in reason and "\n" not in reason


def test_no_compiler_is_a_reason(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler --fast")
    assert made(source) == build.Built(None, "there is no no-such-compiler")


def test_cxx_is_what_compiles(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "my-compiler"
    script.write_text(f'#!/bin/sh\ntouch {tmp_path}/used\nexec g++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -DUNUSED")
    assert made(source).path is not None
    assert (tmp_path / "used").exists()


def test_a_cache_that_cannot_be_written_to(source: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("in the way")
    path, reason = made(source)
    assert path is not None, reason
    assert ctypes.CDLL(str(path)).answer_plain() == 42


def test_several_at_once_build_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "counting"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo x >> {tmp_path}/count;; esac\nexec g++ "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with ThreadPoolExecutor(3) as pool:
        paths = {built.path for built in pool.map(lambda _: made(source), range(3))}
    assert len(paths) == 1 and None not in paths
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_process_that_dies_leaves_no_lock(source: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    path = made(source).path
    assert path is not None
    path.unlink()
    lock = path.with_name(f"{path.name}.lock")
    code = """import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(60)"""
    command = [sys.executable, "-c", code, str(lock)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    began = time.monotonic()
    assert made(source).path == path
    assert time.monotonic() - began < 30


def test_native_code_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCOPE_NATIVE", "0")
    assert build.switched_off()
    monkeypatch.setenv("OPSCOPE_NATIVE", "1")
    assert not build.switched_off()


def test_the_temporary_files_are_gone(source: Path, cache: Path) -> None:
    made(source)
    assert not list(cache.glob(".build*"))

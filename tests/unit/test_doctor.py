"""What `opscope doctor` says of machines that lack something."""

from __future__ import annotations

import json
import shutil
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from opscope import doctor
from opscope.commands import main
from opscope.native import build, hook_library, recorder_library
from opscope.native.build import Built

HOOK = Path("/cache/hook.so")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """All that is found, by name; the trial is not made, and works."""
    monkeypatch.setattr(
        doctor, "_trial", lambda findings: doctor.ExaminedPart("watching", "ok", "")
    )
    monkeypatch.delenv("OPSCOPE_NATIVE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def examine(builds: bool = False) -> dict[str, Any]:
        return {finding.name: finding for finding in doctor.examine(builds)}

    return examine


def hook_that(monkeypatch: pytest.MonkeyPatch, answer: Callable[[bool], Built]) -> None:
    """The hook and the recorder, as far as building them goes."""
    for library, name in ((hook_library, "build_hook"), (recorder_library, "build_recorder")):
        monkeypatch.setattr(library, name, lambda torch, only_find: answer(only_find))


def test_what_is_there(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    all_of_it = found()
    assert all_of_it["torch"].facts == {"version": torch.__version__}
    assert all_of_it["hook"].state == "ok" and str(HOOK) in all_of_it["hook"].detail
    assert not any(finding.cost for finding in all_of_it.values() if finding.state == "ok")


@pytest.mark.parametrize(
    ("name", "problem", "state", "detail"),
    [
        ("torch", None, "missing", ""),
        ("torch", OSError("libtorch.so: no such file\nmore"), "failed", "OSError: libtorch.so: no"),
        (
            "torch",
            ModuleNotFoundError("No module named 'typing_x'", name="typing_x"),
            "failed",
            "_x",
        ),
        ("numpy", None, "missing", ""),
    ],
)
def test_without_a_package(
    name: str,
    problem: Exception | None,
    state: str,
    detail: str,
    found: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = doctor.importlib.import_module

    def imported(module: str) -> Any:
        if module == name:
            raise problem or ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(module)

    monkeypatch.setattr(doctor.importlib, "import_module", imported)
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    finding = found()[{"numpy": "NumPy"}.get(name, name)]
    assert finding.state == state and detail in finding.detail and "\n" not in finding.detail
    assert "nothing can be watched" in finding.cost


def test_a_torch_that_is_too_old(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.4.1+cu121")
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    assert found()["torch"].state == "failed" and "2.11 and later" in found()["torch"].cost


def test_what_is_not_built_yet(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(None))
    monkeypatch.setattr(build, "stats_library", lambda only_find: Built(None))
    for name in ("statistics", "hook", "recorder"):
        assert found()[name].state == "not yet" and "--build" in found()[name].detail


def test_building(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(None if only_find else HOOK))
    monkeypatch.setattr(build, "stats_library", lambda only_find: Built(HOOK))
    monkeypatch.setattr(doctor, "_instructions", lambda: "avx2")
    built = found(builds=True)
    assert built["hook"].state == "ok" and "built in" in built["hook"].detail
    assert built["hook"].facts["seconds"] >= 0
    assert built["statistics"].detail == f"avx2, {HOOK}", "it was there before"


@pytest.mark.parametrize("builds", [False, True])
def test_what_cannot_be_built(found: Any, builds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    all_of_it = found(builds)
    for name in ("statistics", "hook", "recorder"):
        assert all_of_it[name].state == "missing"
        assert "there is no no-such-compiler" in all_of_it[name].detail
    assert "Python mode" in all_of_it["hook"].cost and "NumPy" in all_of_it["statistics"].cost


def test_headers_that_are_not_installed(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook_that(monkeypatch, lambda only_find: Built(None))
    monkeypatch.setattr(doctor.sysconfig, "get_path", lambda name: str(tmp_path))
    assert "Python's headers" in found()["hook"].detail
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert "no C++ headers" in found()["hook"].detail


def test_native_code_that_is_switched_off(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCOPE_NATIVE", "0")
    assert {found()[name].state for name in ("statistics", "hook", "recorder")} == {"off"}


@pytest.mark.parametrize("triton", [None, SimpleNamespace(__version__="3.5.0")])
def test_gpus(found: Any, triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setitem(sys.modules, "triton", triton)
    all_of_it = found()
    assert all_of_it["GPU"].facts == {"devices": ["GPU 0", "GPU 1"]}
    assert all_of_it["Triton"].state == ("ok" if triton else "missing")


def test_folders(found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "opscope").write_text("in the way")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 1 << 20))
    all_of_it = found()
    assert all_of_it["cache"].state == "failed" and "XDG_CACHE_HOME" in all_of_it["cache"].cost
    assert all_of_it["disk"].state == "failed" and "--budget" in all_of_it["disk"].cost


def test_packages_that_few_need(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))

    def version(name: str) -> str:
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    for name, use in (("duckdb", "opscope query"), ("safetensors", "tensors")):
        assert found()[name].state == "missing" and use in found()[name].cost


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("failed", 1)])
def test_the_verb(state: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    trial = doctor.ExaminedPart("watching", state, "a trial", "a cost")
    monkeypatch.setattr(doctor, "_trial", lambda findings: trial)
    assert main(["doctor"]) == code
    printed = capsys.readouterr().out
    assert "  watching" in printed and ("→ a cost" in printed) == (state == "failed")
    assert main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["works"] is (code == 0)
    assert {"Python", "hook", "disk"} <= {finding["name"] for finding in told["findings"]}


def test_a_part_is_told_of_as_soon_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    told: list[str] = []

    def trial(findings: Any) -> doctor.ExaminedPart:
        told.append(capsys.readouterr().out)
        return doctor.ExaminedPart("watching", "ok", "")

    monkeypatch.setattr(doctor, "_trial", trial)
    assert main(["doctor"]) == 0
    assert told[0].startswith("opscope ") and "  disk " in told[0]
    assert "watching" in capsys.readouterr().out


def test_what_a_trial_says() -> None:
    assert doctor._outcome(3, []).state == "ok"
    unloaded = doctor._outcome(3, ["opscope: the native hook in x does not load (y)"])
    assert unloaded.state == "ok" and "does not load" in unloaded.detail
    crashed = doctor._outcome(-11, [])
    assert crashed.state == "failed" and "-11" in crashed.detail
    assert "boom" in doctor._outcome(1, ["Traceback", "ValueError: boom"]).detail


def test_the_page(found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hook_that(monkeypatch, lambda only_find: Built(HOOK))
    package = tmp_path / "opscope"
    monkeypatch.setattr(doctor, "__file__", str(package / "doctor.py"))
    without = found()["page"]
    assert without.state == "missing" and "not built" in without.detail
    assert "Node.js 20.19" in without.cost and "make page" in without.cost
    (package / "server" / "page").mkdir(parents=True)
    (package / "server" / "page" / "index.html").write_text("<!doctype html>")
    assert found()["page"].state == "ok"
    monkeypatch.setattr(doctor, "_SERVING", ("fastapi", "no_such_package"))
    lacking = found()["page"]
    assert "no_such_package" in lacking.detail and "opscope[page]" in lacking.cost

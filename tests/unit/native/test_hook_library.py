"""Finding the native observer, and building it where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from opscope.messages import forget_said
from opscope.native import hook_library
from opscope.native.build import Built

TORCH = SimpleNamespace(__version__="2.99")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What `build_hook` was asked: whether only to find. It finds nothing, and builds `made`."""
    found: list[bool] = []

    def build_hook(torch: object, only_find: bool = False) -> Built:
        found.append(only_find)
        return Built(None) if only_find else Built(Path("made.so"))

    forget_said()
    monkeypatch.setattr(hook_library, "build_hook", build_hook)
    return found


def test_what_is_missing_is_built_and_said(asked: list[bool], capfd) -> None:
    assert hook_library.find_hook(TORCH) == Path("made.so")
    assert asked == [True, False]
    said = capfd.readouterr().err
    assert "building the native observer for torch 2.99" in said
    assert "opscope doctor --build" in said


def test_what_is_there_is_not_built(monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.setattr(hook_library, "build_hook", lambda torch, only_find: Built(Path("a.so")))
    assert hook_library.find_hook(TORCH) == Path("a.so")
    assert capfd.readouterr().err == ""


def test_what_could_not_be_built_before_is_not_tried_again(monkeypatch, capfd) -> None:
    def build_hook(torch: object, only_find: bool) -> Built:
        assert only_find
        return Built(None, "there is no g++")

    forget_said()
    monkeypatch.setattr(hook_library, "build_hook", build_hook)
    assert hook_library.find_hook(TORCH) is None
    assert "there is no g++" in capfd.readouterr().err


def test_a_library_is_found_while_another_thread_asks_sysconfig_for_the_first_time() -> None:
    """Two libraries are built at once: to the second thread `sysconfig` answered nothing."""
    program = (
        "import sysconfig, torch\n"
        "from opscope.native.hook_library import build_hook\n"
        "before = build_hook(torch, only_find=True).path\n"
        "sysconfig._CONFIG_VARS = {}\n"
        "assert sysconfig.get_config_var('SOABI') is None\n"
        "print(before == build_hook(torch, only_find=True).path)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr

"""`opscope doctor` in real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from helpers.forked import forked_opscope
from helpers.program import opscope
from opscope.native import build


def test_a_machine_on_which_it_works(tmp_path: Path) -> None:
    done = forked_opscope("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    states = {finding["name"]: finding["state"] for finding in told["findings"]}
    assert told["works"] and states["watching"] == states["torch"] == states["cache"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_torch_that_is_broken(tmp_path: Path) -> None:
    """The exit code says that nothing can be watched, and the reason is there."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libtorch_cpu.so is missing')")
    done = opscope("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "torch        failed   OSError: libtorch_cpu.so is missing" in done.stdout
    assert "watching     failed" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not build.can_build(), reason="no compiler here")
def test_building_ahead(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = json.loads(opscope("doctor", "--json", cwd=tmp_path, **cache).stdout)
    states = {finding["name"]: finding["state"] for finding in first["findings"]}
    assert {states[name] for name in ("statistics", "hook", "recorder")} == {"not yet"}
    assert states["watching"] == "ok"
    assert not list((tmp_path / "cache").glob("opscope/*.so"))
    done = opscope("doctor", "--build", cwd=tmp_path, timeout=280, **cache)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("built in") == 3
    again = opscope("doctor", "--build", cwd=tmp_path, **cache)
    assert "built in" not in again.stdout and "hook         ok" in again.stdout
    assert torch.__version__ in again.stdout

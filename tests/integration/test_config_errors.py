"""A config that cannot be used: every problem at once, exit code 2, before torch is imported."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from helpers.program import clean_environment, opscope, python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text("print('ran')")
    return tmp_path


def config(folder: Path, common: dict, e2e: dict | None = None) -> str:
    sections = {"common_dump_settings": common, "e2e_dump_settings": e2e or {"enable": True}}
    (folder / "dump.json").write_text(json.dumps(sections, indent=2))
    return "dump.json"


def imported(stderr: str) -> set[str]:
    """Top-level modules in the report of `-X importtime`."""
    lines = [line for line in stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_every_problem_is_listed_before_torch_is_imported(folder: Path) -> None:
    common = {
        "dump_mode": 9,
        "path": "relative/path",
        "iteration": "3-1",
        "net_name": "a/b",
        "kernels": ["name-regex(("],
        "statistic_category": ["max", "maximum"],
        "inputoutput": 0,
    }
    words = ("-X", "importtime", "-m", "opscope", "run", "--every", "x", "--dump")
    done = python(*words, config(folder, common), "script.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    said = [line for line in done.stderr.splitlines() if line.startswith("opscope: ")]
    for key in (*common, "--every"):
        assert any(key in line for line in said), (key, said)
    assert all("dump.json" in line for line in said if "common_dump_settings" in line)
    assert not {"torch", "numpy"} & imported(done.stderr)
    assert "argparse" in imported(done.stderr)


def test_it_takes_no_time(folder: Path) -> None:
    file = config(folder, {"dump_mode": 9})
    took = []
    for _ in range(3):
        began = time.monotonic()
        assert opscope("run", "--dump", file, "script.py", cwd=folder).returncode == 2
        took.append(time.monotonic() - began)
    assert min(took) < 1.0


def test_a_file_that_is_not_json_is_named_with_line_and_column(folder: Path) -> None:
    (folder / "dump.json").write_text('{\n  "common_dump_settings": {,}\n}')
    done = opscope("run", "--dump", "dump.json", "script.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "dump.json" in done.stderr
    assert "line 2" in done.stderr
    assert "column 28" in done.stderr


@pytest.mark.parametrize("variable", ["OPSCOPE_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG"])
def test_a_config_that_is_not_there_names_the_variable(folder: Path, variable) -> None:
    done = opscope("run", "script.py", cwd=folder, **{variable: str(folder / "nosuch.json")})
    assert (done.returncode, done.stdout) == (2, "")
    assert "nosuch.json" in done.stderr
    assert variable in done.stderr


def test_variables_flags_and_project_file_are_checked_together(folder: Path) -> None:
    (folder / "opscope.toml").write_text('budget = "lots"\nrecrod = true\n')
    done = opscope("run", "--steps", "b-a", "script.py", cwd=folder, WORLD_SIZE="none")
    assert (done.returncode, done.stdout) == (2, "")
    for text in ("budget", "recrod", "did you mean", "--steps", "WORLD_SIZE"):
        assert text in done.stderr, text


def test_a_directory_that_cannot_be_written(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    done = opscope("run", "--run-dir", "file/run", "script.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--run-dir" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o500)
    done = opscope("run", "--run-dir", "closed/run", "script.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")


def test_no_path_anywhere_is_an_error_and_the_variable_cures_it(folder: Path) -> None:
    file = config(folder, {"dump_mode": 0, "path": "", "iteration": "0"})
    done = opscope("run", "--dump", file, "script.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "MS_DIAGNOSTIC_DATA_PATH" in done.stderr
    (folder / "script.py").write_text("import torch\ntorch.nn.Linear(1, 1)(torch.ones(1, 1))")
    diagnostic = {"MS_DIAGNOSTIC_DATA_PATH": str(folder / "diagnostic")}
    done = opscope("run", "--dump", file, "script.py", cwd=folder, **diagnostic)
    assert done.returncode == 0, done.stderr
    assert list((folder / "diagnostic" / "debug_dump" / "rank_0" / "Net" / "0" / "0").iterdir())


def test_the_environment_of_the_tests_is_clean() -> None:
    kept = [name for name in clean_environment() if name.startswith(("OPSCOPE_", "MS_"))]
    assert kept == ["OPSCOPE_PAGE"]  # no test starts a server beside its runs unless it says so

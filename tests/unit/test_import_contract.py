"""Who may import whom: the contract holds, and breaks where somebody breaks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.program import clean_environment

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the package in a folder against the project's contract."""
    words = [str(LINT), "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    environ = clean_environment() | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to break."""
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "src/opscope", tmp_path / "opscope", ignore=ignore)
    return tmp_path


def test_the_contract_holds() -> None:
    done = lint(ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("judge/lasting.py", "from opscope.watch import sink"),
        ("settings/run.py", "from opscope.judge.watch_set import load"),
        ("capture/steps.py", "from opscope.session import current_session"),
        ("read/reader.py", "import opscope.analysis.check"),
    ],
)
def test_a_forbidden_import_is_found_inside_a_function_too(
    module: str, statement: str, copy: Path
) -> None:
    with open(copy / "opscope" / module, "a") as file:
        file.write(f"\n\ndef _lazily() -> None:\n    {statement}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "data flows one way BROKEN" in done.stdout


def test_a_new_module_must_have_its_place(copy: Path) -> None:
    (copy / "opscope/somewhere.py").write_text("")
    done = lint(copy)
    assert done.returncode == 1 and "somewhere" in done.stdout + done.stderr


def imports_by_text(folder: Path) -> set[str]:
    """Find the files that import by a text, which the contract cannot see."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"import_module\(|__import__\(", path.read_text())
    }


def test_imports_by_text_are_few_and_known(copy: Path) -> None:
    package = copy / "opscope"
    known = {
        *("__init__.py", "train/__init__.py", "commands/__init__.py"),  # of their own parts
        "stats/extra/__init__.py",  # likewise
        *("doctor.py", "train/needs.py", "mem_reuse.py", "capture/processes.py"),  # of others
    }
    assert imports_by_text(package) == known
    with open(package / "judge/lasting.py", "a") as file:
        file.write('\n\ndef _sneaked():\n    importlib.import_module("opscope.session")\n')
    assert imports_by_text(package) == {*known, "judge/lasting.py"}

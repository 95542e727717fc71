"""A newcomer walks from the installation to the line that is wrong, on a model of their own.

The short walk is with this checkout; the long one begins with a wheel, in an environment that has
never seen opscope.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from first_hour.newcomer import Newcomer
from helpers.program import clean_environment
from opscope.native.build import cache_directory

REPOSITORY = Path(__file__).parents[2]
MODEL = Path(__file__).with_name("their_model.py")
SLIP = 5
"""The step in which the model is broken."""


def walk(newcomer: Newcomer, is_whole: bool) -> None:
    """Everything that one does in the first hour."""
    if is_whole:
        assert "Say what works here" in newcomer.type("doctor", "--help")
        assert "watching     ok" in newcomer.type("doctor")
        listed = newcomer.type("--help")
        for verb in re.findall(r"^    (\w+)  ", listed, re.MULTILINE):
            newcomer.type(verb, "--help")
    trained = newcomer.type("run", "their_model.py")
    assert "step 11 loss" in trained and "NaN" not in trained
    assert newcomer.hints, "the last line of a run is a command"
    look(newcomer, is_whole)
    break_and_find(newcomer)
    followed = newcomer.follow_hints()
    assert {hint.split()[1] for hint in followed} >= {"hits", "show"}


def look(newcomer: Newcomer, is_whole: bool) -> None:
    """What is there, and what the model did."""
    assert re.search(r"their_model-\S+ +finished +12 ", newcomer.type("runs"))
    assert "experts-ModuleList" in newcomer.type("show", "last")
    assert "gate-Linear/addmm-op0" in newcomer.type("nodes", "last", "gate", "--phase", "forward")
    newcomer.type("nodes", "last", "nowhere", code=2)
    if is_whole:
        newcomer.type("nodes", "last")
        newcomer.type("show", "last", "softmax")
        newcomer.type("show", "last", "nowhere", code=2)
        newcomer.type("show", "first", code=2)
        newcomer.type("query", "last", "select step, loss from steps order by step")
        newcomer.type("query", "last", "select * from stats limit 2")
        newcomer.type("query", "last", "select nonsense", code=2)
        newcomer.type("check", "last", "--watch", "TL max_gt=1000")
        assert "holds no recording" in newcomer.type("report", "last", code=2)
        newcomer.type("view", "last", "--no-browser", code=130)
        assert 'did you mean "--steps"' in newcomer.type("run", "--stesp", "3", "x.py", code=2)


def break_and_find(newcomer: Newcomer) -> None:
    """The NaN is where it was put."""
    broken = newcomer.type("run", "their_model.py", "--slip", str(SLIP), code=3)
    line = next(n for n, text in enumerate(MODEL.read_text().splitlines(), 1) if ".sqrt()" in text)
    assert f"origin: their_model.py:{line}\n" in broken
    assert "torch.sqrt(x + eps)" in broken
    assert re.search(rf"stopped: Inf in step {SLIP} ", newcomer.type("runs"))
    assert f"their_model.py:{line}" in newcomer.type("hits", "last")
    assert f"NaN or Inf in step {SLIP}" in newcomer.type("show", "last")
    newcomer.type("report", "last")


def test_with_this_checkout(tmp_path: Path) -> None:
    shutil.copy(MODEL, tmp_path)
    cache = str(cache_directory().parent)  # native code that is built already
    here = Newcomer([sys.executable, "-m", "opscope"], tmp_path, XDG_CACHE_HOME=cache)
    walk(here, is_whole=False)


@pytest.mark.long
@pytest.mark.timeout(1500)  # native code is built in it
def test_from_a_wheel(tmp_path: Path) -> None:
    program = installed(tmp_path)
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(MODEL, folder)
    walk(Newcomer([program], folder), is_whole=True)


def installed(folder: Path) -> Path:
    """The program out of a wheel; torch and other packages are those that are here already."""
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
    page = Path("src/opscope/server/page")
    shutil.copytree(REPOSITORY / page, source / page, dirs_exist_ok=True)
    _python("-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    own = folder / "environment"
    _python("-m", "venv", own)
    (library,) = own.glob("lib/python*/site-packages")
    (library / "of_the_tests.pth").write_text(_packages_without_opscope(folder))
    program = own / "bin" / "python"
    _python("-m", "pip", "install", "-q", "--no-deps", wheel, program=program)
    where = _python("-c", "import opscope; print(opscope.__file__)", program=program)
    assert where.startswith(str(own)), "it is the wheel that is imported"
    return own / "bin" / "opscope"


def _packages_without_opscope(folder: Path) -> str:
    """A folder of links to the packages of the tests, but for opscope."""
    import torch

    here = Path(torch.__file__).parents[1]
    links = folder / "packages"
    links.mkdir()
    for each in here.iterdir():
        if "opscope" not in each.name and each.suffix != ".pth":
            (links / each.name).symlink_to(each)
    return f"{links}\n"


def _python(*words: str | Path, program: Path | str = sys.executable) -> str:
    done = subprocess.run(
        [program, *words],
        cwd="/",
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout

"""The API in code: start, stop, step, a context manager, and the environment on import."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import opscope
from helpers.forked import forked_python
from helpers.program import python
from opscope.read.run import open_run

TRAIN = """
import torch
from torch import nn

def train(steps=2):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((1, 2), step + 1.0)).sum().backward()
        optimizer.step()
    return model
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a training to import and a dump config."""
    (tmp_path / "training.py").write_text(TRAIN)
    write_config(tmp_path, "dump.json")
    return tmp_path


def write_config(folder: Path, name: str, **more: object) -> Path:
    common = {"dump_mode": 0, "path": str(folder / "dump"), "iteration": "all", **more}
    config = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}
    (folder / name).write_text(json.dumps(config))
    return folder / name


def script(folder: Path, *lines: str, **environ: str):
    (folder / "script.py").write_text("\n".join(lines) + "\n")
    return forked_python("script.py", cwd=folder, **environ)


def fresh(folder: Path, *lines: str):
    """The same in a process that has not imported torch."""
    (folder / "script.py").write_text("\n".join(lines) + "\n")
    return python("script.py", cwd=folder)


def dumped(folder: Path, step: int, pattern: str) -> list[np.ndarray]:
    found = sorted((folder / "dump" / "rank_0" / "Net" / "0" / str(step)).glob(pattern))
    return [np.load(file) for file in found]


def test_start_and_stop(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, training",
        "training.train(3)",
        "opscope.start(run_dir='run')",
        "model = training.train(2)",
        "opscope.stop()",
        "opscope.stop()",
        "training.train(3)",
        "print([round(w, 6) for w in (model.weight - training.train(2).weight)[0].tolist()])",
    )
    assert done.stdout == "[0.0, 0.0]\n", done.stderr
    run = open_run(folder / "run")
    assert run.state == "finished"
    assert [step.step for step in run.rank(0).steps if step.complete] == [0, 1]
    assert done.stderr.count("run written to run") == 1


def test_as_a_context_manager_also_when_the_block_raises(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, training",
        "try:",
        "    with opscope.start('dump.json') as session:",
        "        training.train(2)",
        "        raise KeyError('mine')",
        "except KeyError as error:",
        "    print(error, session.capture)",
        "training.train(1)",
    )
    assert done.stdout == "'mine' None\n", done.stderr
    (gradient,) = dumped(folder, 1, "mm.Gradients_Default_network-Linear_*.output.0.*")
    assert gradient.ravel().tolist() == [2.0, 2.0]
    manifest = folder / "dump" / "rank_0" / ".dump_metadata" / "manifest.json"
    assert json.loads(manifest.read_text())["complete"] is True
    assert not (folder / "opscope-runs").exists()


def test_what_starts_after_the_end_does_not_belong_to_the_run(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, os, training",
        "ours = lambda: sorted(name for name in os.environ if name.startswith('OPSCOPE_'))",
        "before = ours()",
        "opscope.start(run_dir='run')",
        "training.train(1)",
        "print(sorted({*ours()} - {*before}))",
        "opscope.stop()",
        "print(ours() == before)",
    )
    assert done.stdout == "['OPSCOPE_RUN_ID', 'OPSCOPE_SETTINGS']\nTrue\n", done.stderr


def test_starting_twice_is_an_error_and_the_first_goes_on(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, training",
        "from opscope.errors import OpscopeError",
        "opscope.start(run_dir='one')",
        "try:",
        "    opscope.start(run_dir='two')",
        "except OpscopeError as error:",
        "    print(error)",
        "training.train(2)",
        "opscope.stop()",
        "with opscope.start(run_dir='three'):",
        "    training.train(1)",
    )
    assert done.stdout == "a session is running already: call opscope.stop() first\n"
    assert len([s for s in open_run(folder / "one").rank(0).steps if s.complete]) == 2
    assert len([s for s in open_run(folder / "three").rank(0).steps if s.complete]) == 1
    assert not (folder / "two").exists()


def test_step_counts_by_hand_and_is_harmless_without_a_session(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, training",
        "opscope.step()",
        "with opscope.start(run_dir='run'):",
        "    opscope.step()",
        "    training.train(3)",
        "    opscope.step()",
        "    training.train(2)",
        "    opscope.step()",
        "opscope.step()",
    )
    assert done.returncode == 0, done.stderr
    steps = open_run(folder / "run").rank(0).steps
    assert [len(step.losses) for step in steps if step.losses] == [3, 2]


def test_wrong_arguments_are_all_named(folder: Path) -> None:
    done = fresh(
        folder,
        "import opscope, sys",
        "from opscope.errors import ConfigError",
        "try:",
        "    opscope.start(dump='nosuch.json', every=0, steps='3-1', budget='many')",
        "except ConfigError as error:",
        "    print(*error.problems, sep='\\n')",
        "print('torch' in sys.modules)",
    )
    *problems, torch_loaded = done.stdout.splitlines()
    assert torch_loaded == "False"
    for name in ("every", "steps", "budget"):
        assert any(line.startswith(f"opscope.start: {name} = ") for line in problems), problems
    assert any("nosuch.json" in line for line in problems)
    assert len(problems) == 4


def test_a_config_in_the_environment_acts_on_import(folder: Path) -> None:
    done = script(
        folder,
        "import opscope, training",
        "training.train(2)",
        "print('trained')",
        MINDSPORE_DUMP_CONFIG=str(folder / "dump.json"),
    )
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    (output,) = dumped(folder, 0, "addmm.Default_network-Linear_addmm-op0.*.output.0.*")
    assert output.shape == (1, 1)
    assert f"iterations in {folder / 'dump'}" in done.stderr


def test_a_broken_config_in_the_environment_ends_the_import(folder: Path) -> None:
    write_config(folder, "bad.json", dump_mode=7, iteraton="0")
    done = script(
        folder, "import opscope", "print('on')", MINDSPORE_DUMP_CONFIG=str(folder / "bad.json")
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert "dump_mode = 7" in done.stderr
    assert "iteraton" in done.stderr


def test_the_environment_is_read_once_at_the_start(folder: Path) -> None:
    write_config(folder, "other.json", path=str(folder / "other"))
    done = script(
        folder,
        "import os, opscope, training",
        f"os.environ['OPSCOPE_DUMP_CONFIG'] = {str(folder / 'other.json')!r}",
        "os.environ['OPSCOPE_DISABLE'] = '1'",
        "training.train(1)",
        OPSCOPE_DUMP_CONFIG=str(folder / "dump.json"),
    )
    assert done.returncode == 0, done.stderr
    assert dumped(folder, 0, "addmm.*.output.0.*")
    assert not (folder / "other").exists()


def test_a_process_that_only_imports_opscope_loads_no_torch(folder: Path) -> None:
    done = fresh(folder, "import opscope, sys", "print('torch' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


BLOCKER = """
import sys
from importlib.machinery import PathFinder

class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] != "torch":
            return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
"""


@pytest.mark.parametrize("how", ["run", "start"])
def test_without_torch_it_is_said_how_to_get_it(folder: Path, how) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(BLOCKER)
    (folder / "script.py").write_text("print('ran')")
    words = ("-m", "opscope", "run", "script.py")
    if how == "start":
        words = ("-c", "import opscope; opscope.start()")
    done = python(*words, cwd=folder, PYTHONPATH=str(folder / "site"))
    assert done.returncode == (2 if how == "run" else 1)
    assert "PyTorch is not installed" in done.stderr
    assert "pip install 'opscope[torch]'" in done.stderr
    assert ("Traceback" in done.stderr) == (how == "start")
    assert "ran" not in done.stdout


def test_without_torch_other_verbs_work(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(BLOCKER)
    environ = {"PYTHONPATH": str(folder / "site")}
    assert python("-m", "opscope", "--version", cwd=folder, **environ).returncode == 0
    assert python("-m", "opscope", "runs", cwd=folder, **environ).returncode == 0
    (folder / "script.py").write_text("print('ran')")
    words = ("-m", "opscope", "run", "--no-record", "--no-stats", "script.py")
    assert python(*words, cwd=folder, **environ).stdout == "ran\n"


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    done = python("-m", "opscope", "--version", cwd=tmp_path)
    assert done.stdout == f"opscope {opscope.__version__}\n"
